// SPDX-License-Identifier: Apache-2.0
// The gated delta rule, token by token (formula at DeltaArgs), once for every instruction set.
//
// Columns of S are independent, so a strip of 16 kVectors columns (dk x 32 fp32 = 16 KiB at dk 128)
// stays in the first-level cache over all tokens. Writing token t's update, reading its output,
// decaying for token t + 1 and reading that token's prediction share one pass over the strip.
// Bounds per element of S and token: 4 operations on the fma pipes, one load, one store; for one
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

  template <int kVectors, bool kFull>
  static void strip(const DeltaArgs& a, std::int32_t column, int n, float* state,
                    std::int64_t stride) {
    V seen[kVectors];   // S^T k of the decayed state
    V delta[kVectors];  // beta (v - seen)
    V out[kVectors];
    V decay = V::set1(a.decay[0]);
    CAIRN_UNROLL
    for (V& s : seen) s = V::zero();
    for (std::int32_t i = 0; i < a.dk; ++i) {
      float* row = state + i * stride;
      const V k = V::set1(a.k[i]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        const V s = V::mul(decay, get<kFull>(row + 16 * c, n));
        seen[c] = V::fma(k, s, seen[c]);
        put<kFull>(s, row + 16 * c, n);
      }
    }
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      const V beta = V::set1(a.beta[t * a.ldg]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        const V v = get<kFull>(a.v + t * a.ldv + column + 16 * c, n);
        delta[c] = V::mul(beta, V::sub(v, seen[c]));
        seen[c] = V::zero();
        out[c] = V::zero();
      }
      const float* q = a.q + t * a.ldq;
      const float* k = a.k + t * a.ldk;
      if (t + 1 < a.tokens) {
        const float* next_k = k + a.ldk;
        decay = V::set1(a.decay[(t + 1) * a.ldg]);
        for (std::int32_t i = 0; i < a.dk; ++i) {
          float* row = state + i * stride;
          const V ki = V::set1(k[i]);
          const V qi = V::set1(q[i]);
          const V next = V::set1(next_k[i]);
          CAIRN_UNROLL
          for (int c = 0; c < kVectors; ++c) {
            V s = V::fma(ki, delta[c], get<kFull>(row + 16 * c, n));
            out[c] = V::fma(qi, s, out[c]);
            s = V::mul(decay, s);
            seen[c] = V::fma(next, s, seen[c]);
            put<kFull>(s, row + 16 * c, n);
          }
        }
      } else {
        for (std::int32_t i = 0; i < a.dk; ++i) {
          float* row = state + i * stride;
          const V ki = V::set1(k[i]);
          const V qi = V::set1(q[i]);
          CAIRN_UNROLL
          for (int c = 0; c < kVectors; ++c) {
            const V s = V::fma(ki, delta[c], get<kFull>(row + 16 * c, n));
            out[c] = V::fma(qi, s, out[c]);
            put<kFull>(s, row + 16 * c, n);
          }
        }
      }
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        put<kFull>(out[c], a.o + t * a.ldo + column + 16 * c, n);
      }
    }
  }

  /// Many tokens: the strip is copied together first, because rows 512 bytes apart share few cache
  /// sets.
  template <int kVectors>
  static void compact_strip(const DeltaArgs& a, std::int32_t column) {
    constexpr std::int64_t kWidth = 16 * kVectors;
    alignas(64) float copy[kMaxCompactRows * kWidth];
    move(a.state + column, a.dv, copy, kWidth, a.dk, kWidth);
    strip<kVectors, true>(a, column, 16, copy, kWidth);
    move(copy, kWidth, a.state + column, a.dv, a.dk, kWidth);
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
    if (a.tokens <= 0) return;
    std::int32_t c = a.column_begin;
    constexpr int kStrip = V::kDeltaVectors;
    constexpr int kRow = 4 * kStrip;
    if (a.tokens < 4) {
      // Whole rows: memory is read in order.
      for (; c + 16 * kRow <= a.column_end; c += 16 * kRow) {
        strip<kRow, true>(a, c, 16, a.state + c, a.dv);
      }
    } else if (a.dk <= kMaxCompactRows) {
      for (; c + 16 * kStrip <= a.column_end; c += 16 * kStrip) compact_strip<kStrip>(a, c);
    }
    for (; c + 16 <= a.column_end; c += 16) strip<1, true>(a, c, 16, a.state + c, a.dv);
    if (c < a.column_end) strip<1, false>(a, c, a.column_end - c, a.state + c, a.dv);
  }

 private:
  static constexpr std::int32_t kMaxCompactRows = 256;
};

}  // namespace cairn::kernels
