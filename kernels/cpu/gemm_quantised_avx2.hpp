// SPDX-License-Identifier: Apache-2.0
// The integer tile for sixteen registers of eight lanes. The including file enables the instruction
// set.
//
// No instruction adds products of unsigned and signed bytes without saturating in 16 bits, except
// where they cannot reach that far. int8: even and odd bytes become 16-bit values and VPMADDWD adds
// their products in pairs to 32 bits, exactly. int4: 2 * 15 * 127 = 3,810, so VPMADDUBSW is exact,
// and eight of its results still add up in 16 bits before they are widened.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/gemm_quantised_body.hpp"

namespace cairn::kernels {
namespace {

/// Strips of columns: 64 for one row, 32 for two, 16 for more.
struct QuantTileAvx2 {
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kGroups =
      1;  // the weights of a group stay in the first-level cache

  template <int kRows, WeightFormat kFormat>
  static void run(const QuantTile& t) {
    if (t.groups == 0) clear<kRows>(t);
    for (std::int64_t g = 0; g < t.groups; ++g) {
      const std::byte* w = t.w + static_cast<std::size_t>(g) * group_bytes(kFormat);
      const std::int8_t* a = t.a + g * quant_group(kFormat);
      if constexpr (kFormat == WeightFormat::int8) {
        Pairs pairs[kRows];
        for (int r = 0; r < kRows; ++r) widen(a + r * t.lda, pairs[r]);
        for (int s = 0; s < 8; s += kVectors<kRows>) strip_int8<kRows>(t, g, w, s, pairs);
      } else {
        for (int s = 0; s < 8; s += kVectors<kRows>) strip_int4<kRows>(t, g, w, s, a);
      }
    }
  }

 private:
  // For g++ 12 to keep sums in registers, they have the type that their additions have, a strip is
  // a function of its own, and this file is compiled without -ftree-ter, which would move many
  // products before the additions.
  using Ints [[gnu::vector_size(32)]] = std::int32_t;
  using Shorts [[gnu::vector_size(32)]] = std::int16_t;

  /// Vectors of eight columns that a strip has.
  template <int kRows>
  static constexpr int kVectors = kRows == 1   ? 8
                                  : kRows == 2 ? 4
                                               : 2;

  /// Activations of one group of int8 as 16-bit values: of each four the even ones, then the odd.
  struct Pairs {
    alignas(32) std::int16_t value[quant_group(WeightFormat::int8)];
  };

  static void widen(const std::int8_t* a, Pairs& to) {
    // Of 16-bit values 0 1 2 3 in each eight bytes: 0 2 1 3.
    const __m256i even_odd = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,
                                              0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    for (std::int64_t k = 0; k < quant_group(WeightFormat::int8); k += 16) {
      const __m256i wide =
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + k)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.value + k),
                         _mm256_shuffle_epi8(wide, even_odd));
    }
  }

  CAIRN_INLINE static __m256i broadcast(const void* four_bytes) {
    std::int32_t value;
    std::memcpy(&value, four_bytes, sizeof value);
    return _mm256_set1_epi32(value);
  }
  /// A strip's share of the next group: strips leave lines out, which the processor does not
  /// foresee.
  template <int kRows>
  CAIRN_INLINE static void prefetch(const std::byte* w) {
    if constexpr (kRows <= 2) return;
    for (int c = 0; c < kVectors<kRows>; c += 2) __builtin_prefetch(w + 32 * c, 0, 2);
  }
  CAIRN_INLINE static __m256i load(const std::byte* w) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  }

  template <int kRows>
  [[gnu::noinline]] static void strip_int8(const QuantTile& t, std::int64_t g,
                                           const std::byte* group, int strip,
                                           const Pairs (&a)[kRows]) {
    constexpr int kCount = kVectors<kRows>;
    Ints sum[kRows][kCount];
    start<kRows, kCount>(t, g, sum);
    const std::byte* w = group + kGroupScaleBytes + 32 * strip;
    const __m256i even = _mm256_set1_epi16(0xff);
    for (std::int64_t k = 0; k < quant_group(WeightFormat::int8); k += 4, w += 4 * kPanelColumns) {
      prefetch<kRows>(w + group_bytes(WeightFormat::int8));
      CAIRN_UNROLL
      for (int half = 0; half < 2; ++half) {
        __m256i b[kCount];
        CAIRN_UNROLL
        for (int c = 0; c < kCount; ++c) {
          b[c] = half == 0 ? _mm256_and_si256(load(w + 32 * c), even)
                           : _mm256_srli_epi16(load(w + 32 * c), 8);
        }
        CAIRN_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m256i values = broadcast(a[r].value + k + 2 * half);
          CAIRN_UNROLL
          for (int c = 0; c < kCount; ++c) {
            sum[r][c] += reinterpret_cast<Ints>(_mm256_madd_epi16(b[c], values));
          }
        }
      }
    }
    fold<kRows, kCount>(t, g, group, strip, sum);
  }

  template <int kRows>
  [[gnu::noinline]] static void strip_int4(const QuantTile& t, std::int64_t g,
                                           const std::byte* group, int strip,
                                           const std::int8_t* a) {
    constexpr int kCount = kVectors<kRows>;
    constexpr std::int64_t kRun = 32;  // values of k that 16 bits hold
    Ints sum[kRows][kCount];
    start<kRows, kCount>(t, g, sum);
    const std::byte* w = group + kGroupScaleBytes + 32 * strip;
    const __m256i low_half = _mm256_set1_epi8(15);
    for (std::int64_t run = 0; run < quant_group(WeightFormat::int4); run += kRun) {
      Shorts small[kRows][kCount];
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        CAIRN_UNROLL
        for (int c = 0; c < kCount; ++c) small[r][c] = Shorts{};
      }
      for (std::int64_t k = run; k < run + kRun; k += 8, w += 4 * kPanelColumns) {
        prefetch<kRows>(w + group_bytes(WeightFormat::int4));
        CAIRN_UNROLL
        for (int half = 0; half < 2; ++half) {
          __m256i b[kCount];
          CAIRN_UNROLL
          for (int c = 0; c < kCount; ++c) {
            const __m256i words = load(w + 32 * c);
            b[c] = _mm256_and_si256(half == 0 ? words : _mm256_srli_epi16(words, 4), low_half);
          }
          CAIRN_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const __m256i values = broadcast(a + r * t.lda + k + 4 * half);
            CAIRN_UNROLL
            for (int c = 0; c < kCount; ++c) {
              small[r][c] += reinterpret_cast<Shorts>(_mm256_maddubs_epi16(b[c], values));
            }
          }
        }
      }
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        CAIRN_UNROLL
        for (int c = 0; c < kCount; ++c) {
          sum[r][c] += reinterpret_cast<Ints>(
              _mm256_madd_epi16(reinterpret_cast<__m256i>(small[r][c]), _mm256_set1_epi16(1)));
        }
      }
    }
    fold<kRows, kCount>(t, g, group, strip, sum);
  }

  template <int kRows, int kCount>
  CAIRN_INLINE static void start(const QuantTile& t, std::int64_t g, Ints (&sum)[kRows][kCount]) {
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kCount; ++c) {
        sum[r][c] = reinterpret_cast<Ints>(_mm256_set1_epi32(t.corrections[r * t.ld_groups + g]));
      }
    }
  }

  /// Scales of eight columns from column 8 v on.
  CAIRN_INLINE static __m256 scales(const std::byte* group, int v) {
    const __m256i pairs = load(group + 64 * (v / 4) + 32 * (v % 2));
    return _mm256_castsi256_ps(v % 4 < 2 ? _mm256_slli_epi32(pairs, 16)
                                         : _mm256_and_si256(pairs, _mm256_set1_epi32(~0xffff)));
  }

  template <int kRows, int kCount>
  CAIRN_INLINE static void fold(const QuantTile& t, std::int64_t g, const std::byte* group,
                                int strip, const Ints (&sum)[kRows][kCount]) {
    const bool resume = t.resume || g > 0;
    CAIRN_UNROLL
    for (int c = 0; c < kCount; ++c) {
      const __m256 scale = scales(group, strip + c);
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        float* y = t.y + r * t.ldy + 8 * (strip + c);
        const __m256 by = _mm256_mul_ps(_mm256_set1_ps(t.scales[r * t.ld_groups + g]), scale);
        const __m256 before = resume ? _mm256_loadu_ps(y) : _mm256_setzero_ps();
        _mm256_storeu_ps(
            y,
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(reinterpret_cast<__m256i>(sum[r][c])), by, before));
      }
    }
  }

  template <int kRows>
  static void clear(const QuantTile& t) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < 8; ++c) _mm256_storeu_ps(t.y + r * t.ldy + 8 * c, _mm256_setzero_ps());
    }
  }
};

}  // namespace
}  // namespace cairn::kernels
