// SPDX-License-Identifier: Apache-2.0
// The two products of attention, of query heads with a tile of keys and of its weights with the
// tile's values. Both take pairs, of dims or of slots, the odd one first: what VDPBF16PS does and
// everything else can repeat.
//
// A policy P says what is multiplied how:
//   P::Lanes                  16 fp32 lanes
//   P::kType, P::kRounds      type of the cache; whether queries and weights are rounded to bf16
//   P::kPairFloats            floats that hold a pair of factors (queries, weights)
//   P::store_factors(a, b, to)  32 factors, 16 pairs
//   P::add(x, pair, y, odd, acc)  acc[h][c] = fma(x_h odd, y_c odd, acc[h][c]), then the even ones
#pragma once

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/math_body.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::kernels {

/// Products by fp32 multiply-adds on widened values.
template <class V, KvType kCache, bool kRounded>
struct FmaProducts {
  using Lanes = V;
  static constexpr KvType kType = kCache;
  static constexpr bool kRounds = kRounded;
  static constexpr int kPairFloats = 2;

  CAIRN_INLINE static void store_factors(V first, V second, float* to) {
    first.store(to);
    second.store(to + 16);
  }

  template <int kHeads, int kVectors>
  CAIRN_INLINE static void add(const float* const* x, std::int64_t pair, const std::byte* const* y,
                               std::int64_t odd, V (*acc)[kVectors]) {
    add_half<true, kHeads, kVectors>(x, 2 * pair + 1, y, odd, acc);
    add_half<false, kHeads, kVectors>(x, 2 * pair, y, odd, acc);
  }

 private:
  template <bool kOdd, int kHeads, int kVectors>
  CAIRN_INLINE static void add_half(const float* const* x, std::int64_t i,
                                    const std::byte* const* y, std::int64_t odd,
                                    V (*acc)[kVectors]) {
    V half[kVectors];
    CAIRN_UNROLL
    for (int c = 0; c < kVectors; ++c) {
      if constexpr (kType == KvType::bf16) {
        half[c] = kOdd ? V::load_high(y[c]) : V::load_low(y[c]);
      } else {
        half[c] = V::load(reinterpret_cast<const float*>(y[c] + (kOdd ? odd : 0)));
      }
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const V factor = V::set1(x[h][i]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[h][c] = V::fma(factor, half[c], acc[h][c]);
    }
  }
};

template <class P>
struct AttentionProducts {
  using V = typename P::Lanes;
  static constexpr bool kHalf = P::kType == KvType::bf16;
  static constexpr int kBlocks = kAttentionTile / kKvBlockTokens;

  /// The keys of one tile, how far behind them their values lie, and the keys read after them.
  struct Tile {
    const std::byte* keys[kBlocks];
    const std::byte* next[kBlocks];
    std::int64_t values;
  };

  /// Query heads of any rows that see the same keys of a tile; their factors, and accumulators
  /// `stride` apart.
  template <int kHeads>
  struct Queries {
    const float* q[kHeads];
    float* folds;
    std::int64_t stride;
  };

  /// q K^T of kHeads heads with kVectors blocks of 16 keys from `b`: one accumulator per score,
  /// pairs of dims ascending.
  template <int kHeads, int kVectors>
  static void scores(const Queries<kHeads>& query, std::int32_t head_dim, const Tile& tile, int b,
                     float* out) {  // [kHeads, 64]
    constexpr std::int64_t kPairBytes = kHalf ? 64 : 128;
    V acc[kHeads][kVectors];
    CAIRN_UNROLL
    for (auto& row : acc) {
      CAIRN_UNROLL
      for (V& x : row) x = V::zero();
    }
    for (std::int64_t pair = 0; pair < head_dim / 2; ++pair) {
      const std::byte* keys[kVectors];
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        keys[c] = tile.keys[b + c] + pair * kPairBytes;
        // The values, which values() walks in strips, arrive in memory order meanwhile.
        __builtin_prefetch(keys[c] + tile.values, 0, 2);
      }
      P::template add<kHeads, kVectors>(query.q, pair, keys, 64, acc);
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[h][c].store(out + h * kAttentionTile + (b + c) * 16);
    }
  }

  /// Where the values of kVectors times 16 dims from `dim` lie behind a block's first, in bytes.
  struct Strip {
    std::int64_t begin;
    std::int64_t pair;  // from a pair of slots to the next
    std::int64_t odd;   // fp32: to a pair's second slot
    int lanes;          // dims of a vector: 16, or those that are left
  };
  static constexpr std::int64_t kVectorBytes = kHalf ? 64 * kKvBlockTokens / 2 : 64;
  static Strip strip_at(std::int32_t head_dim, std::int32_t dim) {
    const int lanes = head_dim - dim < 16 ? head_dim - dim : 16;
    const std::int64_t row = static_cast<std::int64_t>(head_dim) * 4;
    return kHalf ? Strip{dim * (kVectorBytes / 16), lanes * 4, 0, lanes}
                 : Strip{dim * std::int64_t{4}, 2 * row, row, lanes};
  }

  /// A pair of which not all may be read or counted: copied, with zeros for lanes past `lanes` and,
  /// unless `second`, for the pair's second slot, whatever that holds.
  template <int kHeads, int kVectors>
  CAIRN_INLINE static void add_part(const float* const* x, std::int64_t pair,
                                    const std::byte* const* y, const Strip& strip, bool second,
                                    V (*acc)[kVectors]) {
    alignas(64) float copy[kVectors * 32];
    const std::byte* whole[kVectors];
    CAIRN_UNROLL
    for (int c = 0; c < kVectors; ++c) {
      V even = V::load_n(reinterpret_cast<const float*>(y[c]), strip.lanes);
      V odd = V::zero();
      if (kHalf && !second) {
        even = V::as_float(V::iand(V::as_int(even), V::iset1(0xffff)));
      } else if (!kHalf && second) {
        odd = V::load_n(reinterpret_cast<const float*>(y[c] + strip.odd), strip.lanes);
      }
      even.store(copy + 32 * c);
      odd.store(copy + 32 * c + 16);
      whole[c] = reinterpret_cast<const std::byte*>(copy + 32 * c);
    }
    P::template add<kHeads, kVectors>(x, pair, whole, 64, acc);
  }

  /// acc = acc * rescale + sum over keys of p v, pairs of keys ascending, for kVectors vectors of
  /// dims from `dim` (kPart: fewer than 16 are left). Slots at and past `live` count as zeros with
  /// zero weights.
  template <bool kPart, int kHeads, int kVectors>
  static void values(const float* p, const float* rescale, const Tile& tile, std::int32_t live,
                     std::int32_t head_dim, std::int32_t dim, const Queries<kHeads>& query) {
    V sum[kHeads][kVectors];
    const float* weights[kHeads];
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      weights[h] = p + h * kAttentionTile;
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        sum[h][c] =
            V::mul(V::load(query.folds + h * query.stride + dim + 16 * c), V::set1(rescale[h]));
      }
    }
    const Strip strip = strip_at(head_dim, dim);
    for (std::int32_t b = 0; b * kKvBlockTokens < live; ++b) {
      const std::byte* row = tile.keys[b] + tile.values + strip.begin;
      const std::byte* ahead = tile.next[b] + strip.begin;
      const std::int32_t left = live - b * kKvBlockTokens;
      const std::int32_t end = left < kKvBlockTokens ? left : kKvBlockTokens;
      std::int64_t pair = b * (kKvBlockTokens / 2);
      for (std::int32_t j = 0; j < end; j += 2, ++pair, row += strip.pair, ahead += strip.pair) {
        const std::byte* y[kVectors];
        CAIRN_UNROLL
        for (int c = 0; c < kVectors; ++c) {
          y[c] = row + c * kVectorBytes;
          // The next tile's keys fill as many bytes as this one's values.
          __builtin_prefetch(ahead + c * kVectorBytes, 0, 2);
        }
        if (kPart || j + 1 == end) {
          add_part<kHeads, kVectors>(weights, pair, y, strip, j + 1 < end, sum);
        } else {
          P::template add<kHeads, kVectors>(weights, pair, y, strip.odd, sum);
        }
      }
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        sum[h][c].store(query.folds + h * query.stride + dim + 16 * c);
      }
    }
  }
};

}  // namespace cairn::kernels
