// SPDX-License-Identifier: Apache-2.0
// Ops::quantise_rows on eight lanes, two passes over a group: its largest magnitude, its integers.
// The including file enables the instruction set.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/quantised.hpp"

namespace cairn::kernels {
namespace {

struct QuantiseRowsAvx2 {
  static void run(const float* x, std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                  const QuantRows& to) {
    const std::int64_t group = quant_group(to.format);
    const std::int64_t whole = to.k / group;
    for (std::int64_t r = row_begin; r < row_end; ++r) {
      const float* from = x + r * ldx;
      for (std::int64_t g = 0; g < whole; ++g) quantise(from + g * group, group, to, r, g);
      if (whole == to.groups) continue;
      alignas(32) float padded[kMaxQuantGroup] = {};
      std::memcpy(padded, from + whole * group,
                  static_cast<std::size_t>(to.k - whole * group) * sizeof(float));
      quantise(padded, group, to, r, whole);
    }
  }

 private:
  CAIRN_INLINE static std::int32_t fold_max(__m256i x) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
  }
  CAIRN_INLINE static std::int32_t fold_sum(__m256i x) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
  }

  /// The largest magnitude of a group as bits, which sort as magnitudes do and put NaN on top.
  CAIRN_INLINE static float largest(const float* x, std::int64_t group) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most[4] = {};
    for (std::int64_t i = 0; i < group; i += 32) {
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) {
        const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i + 8 * j));
        most[j] = _mm256_max_epi32(most[j], _mm256_and_si256(bits, magnitude));
      }
    }
    const std::int32_t bits = fold_max(
        _mm256_max_epi32(_mm256_max_epi32(most[0], most[1]), _mm256_max_epi32(most[2], most[3])));
    return bits_float(static_cast<std::uint32_t>(bits));
  }

  static void quantise(const float* x, std::int64_t group, const QuantRows& to, std::int64_t row,
                       std::int64_t g) {
    const QuantScale scale = quant_scale(largest(x, group));
    std::int8_t* q = to.values + row * to.ld + g * group;
    to.scales[row * to.groups + g] = scale.scale;
    to.corrections[row * to.groups + g] = 0;
    if (scale.inverse == 0.0F) {  // nothing to round, or nothing that can be rounded
      std::memset(q, 0, static_cast<std::size_t>(group));
      return;
    }
    const __m256 inverse = _mm256_set1_ps(scale.inverse);
    // Packing works in each half of a register: this puts the fours of bytes back in order.
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < group; i += 32) {
      __m256i n[4];
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) {
        // Rounds as quant_round: to nearest, ties to even.
        n[j] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * j), inverse));
        sum = _mm256_add_epi32(sum, n[j]);
      }
      const __m256i bytes =
          _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + i),
                          _mm256_permutevar8x32_epi32(bytes, in_order));
    }
    to.corrections[row * to.groups + g] = -quant_zero(to.format) * fold_sum(sum);
  }
};

}  // namespace
}  // namespace cairn::kernels
