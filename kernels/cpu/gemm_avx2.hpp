// SPDX-License-Identifier: Apache-2.0
// The matrix tile for sixteen registers of eight lanes. The including file enables the instruction
// set.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/gemm_body.hpp"

namespace cairn::kernels {
namespace {

/// WideTile's sums in strips of columns: all 64 for one row, 32 for two and three, 16 for four to
/// six.
struct TileAvx2 {
  using Value = float;
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kDepth =
      128;  // 16 KiB of weights: every strip after the first finds them in the first-level cache

  template <int kRows>
  static void run(const GemmTile<float>& t) {
    strips<kRows, kRows == 1 ? 8 : kRows <= 3 ? 4 : 2>(t, 8);
  }
  /// The first half of the columns.
  template <int kRows>
  static void run_half(const GemmTile<float>& t) {
    strips<kRows, kRows <= 3 ? 4 : 2>(t, 4);
  }

 private:
  template <int kRows, int kVectors>
  static void strips(const GemmTile<float>& t, int vectors) {
    for (int v = 0; v < vectors; v += kVectors) {
      strip<kRows, kVectors>(t, t.w + 16 * v, t.y + 8 * v);
    }
  }
  template <int kRows, int kVectors>
  static void strip(const GemmTile<float>& t, const Bf16* w, float* y) {
    __m256 acc[kRows][kVectors];
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        acc[r][c] = t.resume ? _mm256_loadu_ps(y + r * t.ldy + 8 * c) : _mm256_setzero_ps();
      }
    }
    std::int64_t i = 0;
    for (; i + 1 < t.k; i += 2, w += kPairBlock) {
      if constexpr (kRows > 1) {
        for (int line = 0; line < 4; ++line) {
          __builtin_prefetch(w + 8 * kPairBlock + 32 * line, 0, 3);
        }
      }
      add<true, kRows, kVectors>(w, t.x + i + 1, t.ldx, acc);
      add<false, kRows, kVectors>(w, t.x + i, t.ldx, acc);
    }
    if (i < t.k) add<false, kRows, kVectors>(w, t.x + i, t.ldx, acc);
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) _mm256_storeu_ps(y + r * t.ldy + 8 * c, acc[r][c]);
    }
  }

  /// sum += a b in the register that has it: g++ 12 would take another one for half of the steps
  /// and spill. The target stands here for who reads this header alone: clang checks the operands.
  [[gnu::target("avx2,fma")]] CAIRN_INLINE static void add_product(__m256& sum, __m256 a,
                                                                   __m256 b) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }

  /// One k: the high or the low half of each word.
  template <bool kHigh, int kRows, int kVectors>
  CAIRN_INLINE static void add(const Bf16* w, const float* x, std::int64_t ldx,
                               __m256 (&acc)[kRows][kVectors]) {
    // Eight sums and eight weights would not fit sixteen registers.
    constexpr int kAtOnce = kVectors > 4 ? 4 : kVectors;
    CAIRN_UNROLL
    for (int first = 0; first < kVectors; first += kAtOnce) {
      __m256 b[kAtOnce];
      CAIRN_UNROLL
      for (int c = 0; c < kAtOnce; ++c) {
        const __m256i word =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 16 * (first + c)));
        b[c] = _mm256_castsi256_ps(kHigh ? _mm256_and_si256(word, _mm256_set1_epi32(~0xffff))
                                         : _mm256_slli_epi32(word, 16));
      }
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256 a = _mm256_broadcast_ss(x + r * ldx);
        CAIRN_UNROLL
        for (int c = 0; c < kAtOnce; ++c) add_product(acc[r][first + c], a, b[c]);
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels
