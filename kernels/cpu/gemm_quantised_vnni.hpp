// SPDX-License-Identifier: Apache-2.0
// The integer tile for 32 registers of sixteen lanes with VPDPBUSD, which adds four products of
// bytes to each lane. The including file enables the instruction set.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/gemm_quantised_body.hpp"

namespace cairn::kernels {
namespace {

/// 64 columns by up to six rows: 24 sums, 4 weights, one broadcast.
struct QuantTileVnni {
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kGroups = 8;

  template <int kRows, WeightFormat kFormat>
  static void run(const QuantTile& t) {
    constexpr std::int64_t kStep = kFormat == WeightFormat::int8 ? 4 : 8;
    const std::byte* w = t.w;
    for (std::int64_t g = 0; g < t.groups; ++g) {
      const std::byte* scales = w;
      const std::int8_t* a = t.a + g * quant_group(kFormat);
      w += kGroupScaleBytes;
      Ints sum[kRows][4];
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        CAIRN_UNROLL
        for (int c = 0; c < 4; ++c)
          sum[r][c] = reinterpret_cast<Ints>(_mm512_set1_epi32(t.corrections[r * t.ld_groups + g]));
      }
      for (std::int64_t k = 0; k < quant_group(kFormat); k += kStep, w += 4 * kPanelColumns) {
        if (t.ahead != nullptr) {
          const std::byte* ahead = t.ahead + (w - t.w);
          __builtin_prefetch(ahead, 0, 2);
          __builtin_prefetch(ahead + 64, 0, 2);
        }
        CAIRN_UNROLL
        for (int half = 0; half < kStep / 4; ++half) {
          Ints b[4];
          CAIRN_UNROLL
          for (int c = 0; c < 4; ++c) b[c] = load<kFormat>(w + 64 * c, half);
          CAIRN_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const Ints values = broadcast(a + r * t.lda + k + 4 * half);
            CAIRN_UNROLL
            for (int c = 0; c < 4; ++c) sum[r][c] = add_products(sum[r][c], b[c], values);
          }
        }
      }
      __m512 scale[4];
      CAIRN_UNROLL
      for (int c = 0; c < 4; c += 2) {
        const __m512i pairs = _mm512_loadu_si512(scales + 32 * c);
        scale[c] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
        scale[c + 1] = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(~0xffff)));
      }
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 by = _mm512_set1_ps(t.scales[r * t.ld_groups + g]);
        CAIRN_UNROLL
        for (int c = 0; c < 4; ++c) {
          float* y = t.y + r * t.ldy + 16 * c;
          const __m512 before = t.resume || g > 0 ? _mm512_loadu_ps(y) : _mm512_setzero_ps();
          _mm512_storeu_ps(y,
                           _mm512_fmadd_ps(_mm512_cvtepi32_ps(reinterpret_cast<__m512i>(sum[r][c])),
                                           _mm512_mul_ps(by, scale[c]), before));
        }
      }
    }
    if (t.groups == 0) clear<kRows>(t);
  }

 private:
  /// g++ 12 keeps sums in their registers only when their type is what its builtin works with;
  /// through __m512i each step copies and spills them.
  using Ints [[gnu::vector_size(64)]] = std::int32_t;

  template <WeightFormat kFormat>
  CAIRN_INLINE static Ints load(const std::byte* w, int half) {
    __m512i words = _mm512_loadu_si512(w);
    if constexpr (kFormat == WeightFormat::int4) {
      if (half == 1) words = _mm512_srli_epi16(words, 4);
      words = _mm512_and_si512(words, _mm512_set1_epi8(15));
    }
    return reinterpret_cast<Ints>(words);
  }
  CAIRN_INLINE static Ints broadcast(const std::int8_t* a) {
    std::int32_t four;
    std::memcpy(&four, a, sizeof four);
    return reinterpret_cast<Ints>(_mm512_set1_epi32(four));
  }
  CAIRN_INLINE static Ints add_products(Ints sum, Ints w, Ints a) {
    return reinterpret_cast<Ints>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum),
                                                      reinterpret_cast<__m512i>(w),
                                                      reinterpret_cast<__m512i>(a)));
  }

  template <int kRows>
  static void clear(const QuantTile& t) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < 4; ++c) _mm512_storeu_ps(t.y + r * t.ldy + 16 * c, _mm512_setzero_ps());
    }
  }
};

}  // namespace
}  // namespace cairn::kernels
