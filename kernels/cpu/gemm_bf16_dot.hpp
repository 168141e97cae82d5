// SPDX-License-Identifier: Apache-2.0
// The matrix tile of rounded rows for VDPBF16PS, which adds the products of a pair of k to each
// lane: k = 2 i + 1 first, then k = 2 i, each by one fma. The including file enables the
// instruction set.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/gemm_body.hpp"
#include "kernels/cpu/round_body.hpp"
#include "kernels/cpu/vec_avx512.hpp"

namespace cairn::kernels {
namespace {

/// 64 columns by up to six rows: 24 sums, 4 weights, one broadcast pair. Bound: one instruction for
/// 64 operations.
struct Bf16DotTile {
  using Value = Bf16;
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kDepth = 2048;  // 256 KiB of weights: second-level cache

  template <int kRows>
  static void run(const GemmTile<Bf16>& t) {
    __m512 acc[kRows][4];
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < 4; ++c) {
        acc[r][c] = t.resume ? _mm512_loadu_ps(t.y + r * t.ldy + 16 * c) : _mm512_setzero_ps();
      }
    }
    const Bf16* w = t.w;
    for (std::int64_t i = 0; i < t.k; i += 2, w += kPairBlock) {
      if (t.ahead != nullptr) {
        const Bf16* ahead = t.ahead + (w - t.w);
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + 32, 0, 2);
      }
      __m512bh b[4];
      CAIRN_UNROLL
      for (int c = 0; c < 4; ++c) b[c] = (__m512bh)_mm512_loadu_si512(w + 32 * c);
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512bh a = pair(t.x + r * t.ldx + i);
        CAIRN_UNROLL
        for (int c = 0; c < 4; ++c) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], a, b[c]);
      }
    }
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < 4; ++c) _mm512_storeu_ps(t.y + r * t.ldy + 16 * c, acc[r][c]);
    }
  }

 private:
  CAIRN_INLINE static __m512bh pair(const Bf16* x) {
    std::int32_t two;
    __builtin_memcpy(&two, x, sizeof two);
    return (__m512bh)_mm512_set1_epi32(two);
  }
};

/// Ops::round_rows where products read bf16.
struct RoundRowsBf16 {
  static void run(const float* x, std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                  const RoundedRows& to) {
    for (std::int64_t r = row_begin; r < row_end; ++r) {
      const float* from = x + r * ldx;
      Bf16* const out = reinterpret_cast<Bf16*>(to.data) + r * to.ld;
      std::int64_t i = 0;
      for (; i + 16 <= to.k; i += 16) put(Vec512::load(from + i), out + i);
      if (i == to.k) continue;
      put(Vec512::load_n(from + i, static_cast<int>(to.k - i)), out + i);
    }
  }

 private:
  // Not VCVTNEPS2BF16: it makes zero of what rounds up to the smallest normal number.
  CAIRN_INLINE static void put(Vec512 x, Bf16* out) {
    const __m512i bits = Vec512::as_int(round_bf16_lanes(x));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
  }
};

}  // namespace
}  // namespace cairn::kernels
