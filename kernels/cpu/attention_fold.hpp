// SPDX-License-Identifier: Apache-2.0
// Running softmaxes: how a tile of keys is folded into those of some query heads, and how two of
// one head are joined.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_products.hpp"
#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/math_body.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/round_body.hpp"

namespace cairn::kernels {

/// A running softmax of one query head: accumulator [padded head_dim], then maximum and sum.
template <class V>
struct Fold {
  float* acc;
  float* maximum;
  float* sum;

  CAIRN_INLINE static std::int64_t padded(const AttentionArgs& a) {
    return (a.layout.head_dim + 15) / 16 * 16;
  }
  CAIRN_INLINE static Fold at(float* p, std::int64_t padded_dim) {
    return {p, p + padded_dim, p + padded_dim + 1};
  }

  void clear(std::int64_t padded_dim) const {
    for (std::int64_t d = 0; d < padded_dim; d += 16) V::zero().store(acc + d);
    *maximum = -__builtin_inff();
    *sum = 0.0F;
  }

  /// The one function that joins ranges, in ascending order.
  void join(const Fold& part, std::int64_t padded_dim) const {
    const float top = *part.maximum > *maximum ? *part.maximum : *maximum;
    const V a = exp_lanes(V::set1(*maximum - top));
    const V b = exp_lanes(V::set1(*part.maximum - top));
    *sum = __builtin_fmaf(*sum, a.first(), *part.sum * b.first());
    *maximum = top;
    for (std::int64_t d = 0; d < padded_dim; d += 16) {
      V::fma(V::load(acc + d), a, V::mul(V::load(part.acc + d), b)).store(acc + d);
    }
  }

  void finish(std::int32_t head_dim, float* o) const {
    const V inverse = V::set1(1.0F / *sum);
    for (std::int64_t d = 0; d < head_dim; d += 16) {
      const V y = V::mul(V::load(acc + d), inverse);
      if (head_dim - d >= 16) {
        y.store(o + d);
      } else {
        y.store_n(o + d, static_cast<int>(head_dim - d));
      }
    }
  }
};

template <class P>
struct AttentionFold {
  using V = typename P::Lanes;
  using Products = AttentionProducts<P>;
  using Tile = typename Products::Tile;
  template <int kHeads>
  using Queries = typename Products::template Queries<kHeads>;
  static constexpr int kBlocks = Products::kBlocks;

  /// Folds the `live` first keys of a tile into the folds of kHeads heads. `live` >= 1.
  template <int kHeads>
  static void heads(const AttentionArgs& a, const Queries<kHeads>& query, const Tile& tile,
                    std::int32_t live, float* p) {  // p [kHeads, 64]
    constexpr int kN = V::kAttentionVectors;
    const std::int32_t head_dim = a.layout.head_dim;
    const int blocks = (live + kKvBlockTokens - 1) / kKvBlockTokens;
    int b = 0;
    for (; b + kN <= blocks; b += kN) {
      Products::template scores<kHeads, kN>(query, head_dim, tile, b, p);
    }
    if constexpr (kN > 1) {
      for (; b < blocks; ++b) Products::template scores<kHeads, 1>(query, head_dim, tile, b, p);
    }
    alignas(64) float rescale[16] = {};
    weigh<kHeads>(a, query, live, p, rescale);
    std::int32_t d = 0;
    for (; d + 16 * kN <= head_dim; d += 16 * kN) {
      Products::template values<false, kHeads, kN>(p, rescale, tile, live, head_dim, d, query);
    }
    if constexpr (kN > 1) {
      for (; d + 16 <= head_dim; d += 16) {
        Products::template values<false, kHeads, 1>(p, rescale, tile, live, head_dim, d, query);
      }
    }
    if (d < head_dim) {
      Products::template values<true, kHeads, 1>(p, rescale, tile, live, head_dim, d, query);
    }
  }

 private:
  /// Scores of a tile to factors of its values; maxima and sums with them. rescale[h] is what the
  /// accumulators of head h are to be multiplied by.
  template <int kHeads>
  CAIRN_INLINE static void weigh(const AttentionArgs& a, const Queries<kHeads>& query,
                                 std::int32_t live, float* p, float* rescale) {
    const V scale = V::set1(a.scale);
    const V lowest = V::set1(-__builtin_inff());
    const std::int64_t dim = Fold<V>::padded(a);
    float sums[kHeads];
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const Fold<V> f = Fold<V>::at(query.folds + h * query.stride, dim);
      float* const mine = p + h * kAttentionTile;
      V s[kBlocks];
      CAIRN_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        const int left = live - 16 * i;
        s[i] = lowest;
        if (left >= 16) {
          s[i] = V::mul(V::load(mine + 16 * i), scale);
        } else if (left > 0) {  // selection, not multiplication: a dead slot may hold NaN
          s[i] = V::select(V::first_n(left), V::mul(V::load(mine + 16 * i), scale), lowest);
        }
      }
      const float tile_maximum = V::reduce_max(V::max(V::max(s[0], s[1]), V::max(s[2], s[3])));
      const float maximum = tile_maximum > *f.maximum ? tile_maximum : *f.maximum;
      rescale[h] = *f.maximum - maximum;
      *f.maximum = maximum;
      CAIRN_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        s[i] = exp_falling_lanes(V::sub(s[i], V::set1(maximum)));
        if constexpr (P::kRounds) s[i] = round_bf16_lanes(s[i]);
      }
      P::store_factors(s[0], s[1], mine);
      P::store_factors(s[2], s[3], mine + 16 * P::kPairFloats);
      sums[h] = V::reduce_add(V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
    }
    exp_falling_lanes(V::load(rescale)).store(rescale);
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const Fold<V> f = Fold<V>::at(query.folds + h * query.stride, dim);
      *f.sum = __builtin_fmaf(*f.sum, rescale[h], sums[h]);
    }
  }
};

}  // namespace cairn::kernels
