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

/// Up to six rows by 64 columns (24 sums, 4 weights, one broadcast; the fp32 sums wait in y) or,
/// two such strips after each other, by 32 (12 sums, 12 fp32 sums, 2 weights).
struct QuantTileVnni : TakesPacked {
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kGroups = 8;

  template <int kRows, WeightFormat kFormat>
  static void run(const QuantTile& t) {
    // int4 folds twice as often: fp32 sums in registers save it the loads and stores. int8 is
    // faster by reading each broadcast once, and so is whoever waits for memory: a strip of 32
    // columns skips every other pair of lines.
    if constexpr (kFormat == WeightFormat::int4 && kRows > 4) {
      if (!t.alone) {
        strip<kRows, 2, kFormat>(t, 0);
        strip<kRows, 2, kFormat>(t, 2);
        return;
      }
    }
    strip<kRows, 4, kFormat>(t, 0);
  }

 private:
  /// g++ 12 keeps sums in their registers only when their type is what its builtin works with;
  /// through __m512i each step copies and spills them.
  using Ints [[gnu::vector_size(64)]] = std::int32_t;

  template <int kRows, int kVectors, class F>
  CAIRN_INLINE static void each(F&& fn) {
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) fn(r, c);
    }
  }

  /// Whether a strip's fp32 sums stay in registers from group to group, or wait in y.
  static constexpr bool in_registers(int rows, int vectors) { return rows * vectors <= 12; }

  /// Adds group g, whose weights begin at `group`, to a strip's fp32 sums.
  template <int kRows, int kVectors>
  CAIRN_INLINE static void fold_group(const QuantTile& t, int first, std::int64_t g,
                                      const std::byte* group, const Ints (&sum)[kRows][kVectors],
                                      __m512 (&total)[kRows][kVectors]) {
    __m512 scale[kVectors];
    CAIRN_UNROLL
    for (int c = 0; c < kVectors; c += 2) {
      const __m512i pairs = _mm512_loadu_si512(group + 32 * (first + c));
      scale[c] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
      scale[c + 1] = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(~0xffff)));
    }
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 by = _mm512_set1_ps(t.scales[r * t.ld_groups + g]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        float* const at = t.y + r * t.ldy + 16 * (first + c);
        if constexpr (in_registers(kRows, kVectors)) {
          total[r][c] = fold(sum[r][c], by, scale[c], total[r][c]);
        } else {
          const __m512 before = t.resume || g > 0 ? _mm512_loadu_ps(at) : _mm512_setzero_ps();
          _mm512_storeu_ps(at, fold(sum[r][c], by, scale[c], before));
        }
      }
    }
  }

  /// Columns [16 first, 16 (first + kVectors)).
  template <int kRows, int kVectors, WeightFormat kFormat>
  static void strip(const QuantTile& t, int first) {
    constexpr std::int64_t kStep = kFormat == WeightFormat::int8 ? 4 : 8;
    constexpr bool kInRegisters = in_registers(kRows, kVectors);
    const std::byte* group = t.w;
    float* const y = t.y + 16 * first;
    __m512 total[kRows][kVectors];
    if constexpr (kInRegisters) {
      each<kRows, kVectors>([&](int r, int c) {
        total[r][c] = t.resume ? _mm512_loadu_ps(y + r * t.ldy + 16 * c) : _mm512_setzero_ps();
      });
    }
    for (std::int64_t g = 0; g < t.groups; ++g, group += group_bytes(kFormat)) {
      const std::byte* w = group + kGroupScaleBytes;
      const std::int8_t* a = t.a + g * quant_group(kFormat);
      Ints sum[kRows][kVectors];
      each<kRows, kVectors>([&](int r, int c) {
        sum[r][c] = reinterpret_cast<Ints>(_mm512_set1_epi32(t.corrections[r * t.ld_groups + g]));
      });
      for (std::int64_t k = 0; k < quant_group(kFormat); k += kStep, w += 4 * kPanelColumns) {
        if (t.ahead != nullptr) {  // a line for 32 columns
          CAIRN_UNROLL
          for (int c = first; c < first + kVectors; c += 2) {
            __builtin_prefetch(t.ahead + (w - t.w) + 32 * c, 0, 2);
          }
        }
        CAIRN_UNROLL
        for (int half = 0; half < kStep / 4; ++half) {
          Ints b[kVectors];
          CAIRN_UNROLL
          for (int c = 0; c < kVectors; ++c) b[c] = load<kFormat>(w + 64 * (first + c), half);
          CAIRN_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const Ints values = broadcast(a + r * t.lda + k + 4 * half);
            CAIRN_UNROLL
            for (int c = 0; c < kVectors; ++c) sum[r][c] = add_products(sum[r][c], b[c], values);
          }
        }
      }
      fold_group<kRows, kVectors>(t, first, g, group, sum, total);
    }
    if constexpr (kInRegisters) {
      each<kRows, kVectors>(
          [&](int r, int c) { _mm512_storeu_ps(y + r * t.ldy + 16 * c, total[r][c]); });
    } else if (t.groups == 0) {
      each<kRows, kVectors>(
          [&](int r, int c) { _mm512_storeu_ps(y + r * t.ldy + 16 * c, _mm512_setzero_ps()); });
    }
  }

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
  CAIRN_INLINE static __m512 fold(Ints sum, __m512 by_row, __m512 by_column, __m512 total) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(reinterpret_cast<__m512i>(sum)),
                           _mm512_mul_ps(by_row, by_column), total);
  }
};

}  // namespace
}  // namespace cairn::kernels
