// SPDX-License-Identifier: Apache-2.0
// The integer tile for sixteen registers of eight lanes. The including file enables the instruction
// set.
//
// No instruction adds products of unsigned and signed bytes without saturating in 16 bits, except
// where they cannot reach that far. int8: even and odd bytes become 16-bit values and VPMADDWD adds
// their products in pairs to 32 bits, exactly. int4: 2 * 15 * 127 = 3,810, so VPMADDUBSW is exact,
// and eight of its results still add up in 16 bits before they are widened.
//
// VPMADDWD has two of four pipes, and additions get in its way. Many rows of int8 take half as many
// of it, after Winograd (A new algorithm for inner product, 1968):
//   (w0 + a1) (w1 + a0) = w0 a0 + w1 a1 + w0 w1 + a0 a1,
// where a column's sum of w0 w1 and a row's of a0 a1 are worked out once. Integers: the same sums.
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

  static constexpr int kUnpackedRows = 4;  // 8 sums, 4 weights, 2 broadcasts, 2 to multiply

  /// Whether so many rows pay for unpacking a group of weights for all of them.
  template <WeightFormat kFormat>
  static constexpr bool unpacks(std::int64_t rows) {
    return kFormat == WeightFormat::int8 && rows >= 32;
  }

  /// int8 as 16-bit values: of each strip of sixteen columns and each four values of k the even
  /// ones of k, then the odd ones.
  static void unpack(const std::byte* group, UnpackedGroup& to) {
    const __m256i even = _mm256_set1_epi16(0xff);
    for (int c = 0; c < 8; ++c) {
      const std::byte* w = group + kGroupScaleBytes + 32 * c;
      std::int16_t* at = to.value + 64 * kSteps * (c / 2) + 16 * (c % 2);
      Ints crossed = {};
      for (int k = 0; k < kSteps; ++k, w += 4 * kPanelColumns, at += 64) {
        const __m256i evens = _mm256_and_si256(load(w), even);
        const __m256i odds = _mm256_srli_epi16(load(w), 8);
        _mm256_store_si256(reinterpret_cast<__m256i*>(at), evens);
        _mm256_store_si256(reinterpret_cast<__m256i*>(at + 32), odds);
        crossed += reinterpret_cast<Ints>(_mm256_madd_epi16(evens, odds));
      }
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.crossed + 8 * c),
                         reinterpret_cast<__m256i>(crossed));
    }
  }

  template <int kRows, WeightFormat kFormat>
  static void run(const QuantTile& t) {
    if (t.groups == 0) clear<kRows>(t);
    if constexpr (kFormat == WeightFormat::int8 && kRows <= kUnpackedRows) {
      if (t.unpacked != nullptr) return run_unpacked<kRows>(t);
    }
    for (std::int64_t g = 0; g < t.groups; ++g) {
      const std::byte* w = t.w + static_cast<std::size_t>(g) * group_bytes(kFormat);
      const std::int8_t* a = t.a + g * quant_group(kFormat);
      if constexpr (kFormat == WeightFormat::int8) {
        Pairs pairs[kRows];
        for (int r = 0; r < kRows; ++r) widen(a + r * t.lda, pairs[r], [](__m256i) {});
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

  static constexpr int kSteps = quant_group(WeightFormat::int8) / 4;

  /// Vectors of eight columns that a strip has.
  template <int kRows>
  static constexpr int kVectors = kRows == 1   ? 8
                                  : kRows == 2 ? 4
                                               : 2;

  alignas(32) static constexpr float kZeros[kPanelColumns] = {};

  /// Activations of one group of int8 as 16-bit values: of each four the even ones, then the odd.
  struct Pairs {
    alignas(32) std::int16_t value[quant_group(WeightFormat::int8)];
  };

  template <class Each>
  CAIRN_INLINE static void widen(const std::int8_t* a, Pairs& to, const Each& each) {
    // Of 16-bit values 0 1 2 3 in each eight bytes: 0 2 1 3.
    const __m256i even_odd = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,
                                              0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    for (std::int64_t k = 0; k < quant_group(WeightFormat::int8); k += 16) {
      const __m256i wide =
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + k)));
      const __m256i sorted = _mm256_shuffle_epi8(wide, even_odd);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.value + k), sorted);
      each(sorted);
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
  CAIRN_INLINE static __m256i load(const void* w) {
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
  static void run_unpacked(const QuantTile& t) {
    static_assert(kGroups == 1, "what is unpacked is one group");
    Pairs pairs[kRows];
    std::int32_t apart[kRows];
    for (int r = 0; r < kRows; ++r) {
      Ints crossed = {};  // even times odd values, each product twice
      widen(t.a + r * t.lda, pairs[r], [&](__m256i v) {
        crossed += reinterpret_cast<Ints>(_mm256_madd_epi16(v, _mm256_shuffle_epi32(v, 0xb1)));
      });
      apart[r] = t.corrections[r * t.ld_groups] - half_of_all(crossed);
    }
    for (int s = 0; s < 8; s += 2) strip_unpacked<kRows>(t, s, pairs, apart);
  }

  /// Half the sum of eight numbers of which each two neighbours are the same.
  static std::int32_t half_of_all(Ints pairs) {
    const __m256i eight = reinterpret_cast<__m256i>(pairs);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(four);
  }

  /// `apart` holds what rows give alone. 2 (255 + 127)^2 a step fits 32 bits.
  template <int kRows>
  [[gnu::noinline]] static void strip_unpacked(const QuantTile& t, int strip,
                                               const Pairs (&a)[kRows],
                                               const std::int32_t (&apart)[kRows]) {
    Ints sum[kRows][2];
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < 2; ++c) {
        sum[r][c] = reinterpret_cast<Ints>(_mm256_sub_epi32(
            _mm256_set1_epi32(apart[r]), load(t.unpacked->crossed + 8 * (strip + c))));
      }
    }
    const std::int16_t* w = t.unpacked->value + 32 * kSteps * strip;
    // A line of what is multiplied next for each four values of k, or what is here already.
    const bool fetches = t.ahead != nullptr && strip < 4;
    const std::byte* ahead =
        fetches ? t.ahead + kGroupScaleBytes + 32 * strip : reinterpret_cast<const std::byte*>(w);
    const std::int64_t line = fetches ? 4 * kPanelColumns : 0;
    for (int k = 0; k < kSteps; ++k, w += 64, ahead += line) {
      __builtin_prefetch(ahead, 0, 2);
      Shorts even[2];
      Shorts odd[2];
      CAIRN_UNROLL
      for (int c = 0; c < 2; ++c) {
        even[c] = reinterpret_cast<Shorts>(load(w + 16 * c));
        odd[c] = reinterpret_cast<Shorts>(load(w + 32 + 16 * c));
      }
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto a_even = reinterpret_cast<Shorts>(broadcast(a[r].value + 4 * k));
        const auto a_odd = reinterpret_cast<Shorts>(broadcast(a[r].value + 4 * k + 2));
        CAIRN_UNROLL
        for (int c = 0; c < 2; ++c) {
          sum[r][c] +=
              reinterpret_cast<Ints>(_mm256_madd_epi16(reinterpret_cast<__m256i>(even[c] + a_odd),
                                                       reinterpret_cast<__m256i>(odd[c] + a_even)));
        }
      }
    }
    fold<kRows, 2>(t, 0, t.w, strip, sum);
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
    // Copied, for a store to y might change what t holds, as far as the compiler knows.
    const float* const row_scales = t.scales + g;
    const std::int64_t ld_groups = t.ld_groups;
    float* const y = t.y + 8 * strip;
    const std::int64_t ldy = t.ldy;
    const bool resume = t.resume || g > 0;
    const float* const from = resume ? y : kZeros;
    const std::int64_t ld_from = resume ? ldy : 0;
    __m256 scale[kCount];
    CAIRN_UNROLL
    for (int c = 0; c < kCount; ++c) scale[c] = scales(group, strip + c);
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256 by_row = _mm256_set1_ps(row_scales[r * ld_groups]);
      CAIRN_UNROLL
      for (int c = 0; c < kCount; ++c) {
        const __m256 by = _mm256_mul_ps(by_row, scale[c]);
        const __m256 before = _mm256_loadu_ps(from + r * ld_from + 8 * c);
        _mm256_storeu_ps(
            y + r * ldy + 8 * c,
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
