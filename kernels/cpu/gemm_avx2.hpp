// SPDX-License-Identifier: Apache-2.0
// The matrix tile for sixteen registers of eight lanes. The including file enables the instruction
// set.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/packed.hpp"

namespace cairn::kernels {
namespace {

/// WideTile's sums in strips of columns: all 64 for one row, 32 for two and three, 16 for four to
/// six.
struct TileAvx2 {
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kDepth =
      128;  // 16 KiB of weights: every strip after the first finds them in the first-level cache

  template <int kRows>
  static void run(const Bf16* w, std::int64_t k, const float* x, std::int64_t ldx, float* y,
                  std::int64_t ldy, bool resume) {
    // A load of 8 words holds columns c .. c + 7 in the low halves and c + 16 .. c + 23 in the high
    // ones.
    constexpr int kLoads = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
    for (int s = 0; s < 4; s += kLoads) {
      strip<kRows, kLoads>(w + 16 * s, k, x, ldx, y + 32 * (s / 2) + 8 * (s % 2), ldy, resume);
    }
  }

  template <int kRows, int kLoads>
  static void strip(const Bf16* w, std::int64_t k, const float* x, std::int64_t ldx, float* y,
                    std::int64_t ldy, bool resume) {
    __m256 low[kRows][kLoads];
    __m256 high[kRows][kLoads];
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kLoads; ++c) {
        const float* from = y + r * ldy + 32 * (c / 2) + 8 * (c % 2);
        low[r][c] = resume ? _mm256_loadu_ps(from) : _mm256_setzero_ps();
        high[r][c] = resume ? _mm256_loadu_ps(from + 16) : _mm256_setzero_ps();
      }
    }
    const __m256i mask = _mm256_set1_epi32(~0xffff);
    for (std::int64_t i = 0; i < k; ++i) {
      if constexpr (kRows > 1) {
        __builtin_prefetch(w + (i + 16) * kPanelColumns, 0, 3);
        __builtin_prefetch(w + (i + 16) * kPanelColumns + 32, 0, 3);
      }
      CAIRN_UNROLL
      for (int c = 0; c < kLoads; ++c) {
        const __m256i word =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + i * kPanelColumns + 16 * c));
        const __m256 b_low = _mm256_castsi256_ps(_mm256_slli_epi32(word, 16));
        const __m256 b_high = _mm256_castsi256_ps(_mm256_and_si256(word, mask));
        CAIRN_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m256 a = _mm256_broadcast_ss(x + r * ldx + i);
          low[r][c] = _mm256_fmadd_ps(a, b_low, low[r][c]);
          high[r][c] = _mm256_fmadd_ps(a, b_high, high[r][c]);
        }
      }
    }
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kLoads; ++c) {
        float* to = y + r * ldy + 32 * (c / 2) + 8 * (c % 2);
        _mm256_storeu_ps(to, low[r][c]);
        _mm256_storeu_ps(to + 16, high[r][c]);
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels
