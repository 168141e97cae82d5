// SPDX-License-Identifier: Apache-2.0
// The gated delta rule, token by token (formula at DeltaArgs), once for every instruction set.
//
// Columns of S are independent, so a strip of 16 kVectors columns (dk x 32 fp32 = 16 KiB at dk 128)
// stays in the first-level cache over all tokens. Writing token t's update, reading its output and
// reading token t + 1's prediction share one pass over the strip. Decays do not touch it: they
// gather in one factor, which S is multiplied with only when it becomes small.
// Bounds per element of S and token: 3 operations on the fma pipes, one load, one store; for one
// token alone 8 bytes of memory traffic.
#pragma once

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::kernels {

template <class V>
struct Delta {
  /// Lanes of a strip's vector; only the strip at the end of a row that is no multiple of 16 is
  /// partial.
  template <bool kFull>
  CAIRN_INLINE static V get(const float* p, int n) {
    if constexpr (kFull) {
      return V::load(p);
    } else {
      return V::load_n(p, n);
    }
  }
  template <bool kFull>
  CAIRN_INLINE static void put(V x, float* p, int n) {
    if constexpr (kFull) {
      x.store(p);
    } else {
      x.store_n(p, n);
    }
  }

  /// The decays that S has not been multiplied with. A fold keeps them, and so what S holds instead
  /// of itself, far from where fp32 ends; a NaN folds.
  struct Decays {
    float factor = 1.0F;
    bool fold = false;  // S is multiplied with `by` first
    float by = 1.0F;

    Decays after(float decay) const {
      constexpr float kLeast = 0x1p-60F;
      const float product = factor * decay;
      const bool fits = product >= kLeast && product <= 1.0F / kLeast;
      return fits ? Decays{product, false, 1.0F} : Decays{1.0F, true, product};
    }
  };

  template <int kVectors>
  struct Sums {
    V seen[kVectors];   // S^T k of the next token
    V delta[kVectors];  // beta (v - seen) / factor
    V out[kVectors];    // S^T q
  };

  struct Rows {
    float* state;
    std::int64_t stride;
    std::int32_t dk;
    int n;
  };

  /// Over the rows of a strip: S + k delta^T and its output, the fold, the next token's prediction.
  template <int kVectors, bool kFull, bool kWrite, bool kFold, bool kRead>
  CAIRN_INLINE static void pass(const Rows& rows, const float* k, const float* q,
                                const float* next_k, float by, Sums<kVectors>& sums) {
    const V fold = V::set1(by);
    for (std::int32_t i = 0; i < rows.dk; ++i) {
      float* const row = rows.state + i * rows.stride;
      const V ki = kWrite ? V::set1(k[i]) : V::zero();
      const V qi = kWrite ? V::set1(q[i]) : V::zero();
      const V next = kRead ? V::set1(next_k[i]) : V::zero();
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        V s = get<kFull>(row + 16 * c, rows.n);
        if constexpr (kWrite) {
          s = V::fma(ki, sums.delta[c], s);
          sums.out[c] = V::fma(qi, s, sums.out[c]);
        }
        if constexpr (kFold) s = V::mul(fold, s);
        if constexpr (kRead) sums.seen[c] = V::fma(next, s, sums.seen[c]);
        if constexpr (kWrite || kFold) put<kFull>(s, row + 16 * c, rows.n);
      }
    }
  }

  /// Returns the factor left after the last token.
  template <int kVectors, bool kFull>
  static float strip(const DeltaArgs& a, std::int32_t column, int n, float* state,
                     std::int64_t stride, float factor) {
    const Rows rows{state, stride, a.dk, n};
    Sums<kVectors> sums;
    CAIRN_UNROLL
    for (V& s : sums.seen) s = V::zero();
    Decays decays = Decays{factor}.after(a.decay[0]);
    if (decays.fold) {
      pass<kVectors, kFull, false, true, true>(rows, nullptr, nullptr, a.k, decays.by, sums);
    } else {
      pass<kVectors, kFull, false, false, true>(rows, nullptr, nullptr, a.k, 1.0F, sums);
    }
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      const V whole = V::set1(decays.factor);
      const V rate = V::set1(a.beta[t * a.ldg] / decays.factor);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        const V v = get<kFull>(a.v + t * a.ldv + column + 16 * c, n);
        sums.delta[c] = V::mul(rate, V::sub(v, V::mul(whole, sums.seen[c])));
        sums.seen[c] = V::zero();
        sums.out[c] = V::zero();
      }
      const float* const q = a.q + t * a.ldq;
      const float* const k = a.k + t * a.ldk;
      const float* const next_k = k + a.ldk;
      if (t + 1 == a.tokens) {
        pass<kVectors, kFull, true, false, false>(rows, k, q, nullptr, 1.0F, sums);
      } else {
        decays = decays.after(a.decay[(t + 1) * a.ldg]);
        if (decays.fold) {
          pass<kVectors, kFull, true, true, true>(rows, k, q, next_k, decays.by, sums);
        } else {
          pass<kVectors, kFull, true, false, true>(rows, k, q, next_k, 1.0F, sums);
        }
      }
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        put<kFull>(V::mul(whole, sums.out[c]), a.o + t * a.ldo + column + 16 * c, n);
      }
    }
    return decays.factor;
  }

  /// Many tokens: the strip is copied together first, because rows 512 bytes apart share few cache
  /// sets.
  template <int kVectors>
  static float compact_strip(const DeltaArgs& a, std::int32_t column, float factor) {
    constexpr std::int64_t kWidth = 16 * kVectors;
    alignas(64) float copy[kMaxCompactRows * kWidth];
    move(a.state + column, a.dv, copy, kWidth, a.dk, kWidth);
    const float left = strip<kVectors, true>(a, column, 16, copy, kWidth, factor);
    move(copy, kWidth, a.state + column, a.dv, a.dk, kWidth);
    return left;
  }
  static void move(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
                   std::int32_t rows, std::int64_t width) {
    for (std::int32_t i = 0; i < rows; ++i) {
      for (std::int64_t c = 0; c < width; c += 16) {
        V::load(from + i * from_stride + c).store(to + i * to_stride + c);
      }
    }
  }

  static void run(const DeltaArgs& a) {
    if (a.tokens <= 0 || a.column_begin >= a.column_end) return;
    // The same in all groups of columns; each has its own, so that none is written while another
    // thread reads it.
    float* const pending = a.pending + a.column_begin / kDeltaColumns;
    const float factor = *pending == 0.0F ? 1.0F : *pending;
    float left = factor;
    std::int32_t c = a.column_begin;
    constexpr int kStrip = V::kDeltaVectors;
    constexpr int kRow = 4 * kStrip;
    if (a.tokens < 4) {
      // Whole rows: memory is read in order.
      for (; c + 16 * kRow <= a.column_end; c += 16 * kRow) {
        left = strip<kRow, true>(a, c, 16, a.state + c, a.dv, factor);
      }
    } else if (a.dk <= kMaxCompactRows) {
      for (; c + 16 * kStrip <= a.column_end; c += 16 * kStrip) {
        left = compact_strip<kStrip>(a, c, factor);
      }
    }
    for (; c + 16 <= a.column_end; c += 16) {
      left = strip<1, true>(a, c, 16, a.state + c, a.dv, factor);
    }
    if (c < a.column_end) {
      left = strip<1, false>(a, c, a.column_end - c, a.state + c, a.dv, factor);
    }
    for (float* p = pending; p != a.pending + delta_groups(a.column_end); ++p) *p = left;
  }

 private:
  static constexpr std::int32_t kMaxCompactRows = 256;
};

}  // namespace cairn::kernels
