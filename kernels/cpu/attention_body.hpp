// SPDX-License-Identifier: Apache-2.0
// Causal attention over paged keys and values in two fixed levels, once for every instruction set.
//
// Tiles of 64 keys are folded into the running softmax of their absolute range of 512 keys, ranges
// into the row's total in ascending order. Where a tile starts depends on absolute positions only,
// and each row decides about rescaling alone, so neither chunking nor batching reaches a row's
// bits. Denormals are zero throughout, as VDPBF16PS has them. Bounds per row, key and query head: 4
// head_dim operations; per row and kv head 4 head_dim bytes a key (bf16), shared by the group.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_fold.hpp"
#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/flush_denormals.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/round_body.hpp"

namespace cairn::kernels {

/// Attention whose products are those of the policy P (attention_products.hpp).
template <class P>
struct AttentionRows {
  using V = typename P::Lanes;
  using Softmax = Fold<V>;
  using Tiles = AttentionFold<P>;
  using Tile = typename Tiles::Tile;
  static constexpr int kBlocks = Tiles::kBlocks;
  static constexpr std::int64_t kTiles = kAttentionRange / kAttentionTile;  // of a range
  static_assert(V::kAttentionHeads <= kAttentionBlock);

  /// What a call has besides its arguments.
  struct Work {
    const AttentionArgs& a;
    float* p;        // [kAttentionBlock, 64] scores, then weights
    float* factors;  // kRounds: the rounded queries, attention_query_size apart
  };

  static void run(const AttentionArgs& a) {
    const FlushDenormals flush;
    const std::int64_t dim = Softmax::padded(a);
    const std::int64_t stride = attention_partial_size(a.layout.head_dim);
    const std::int64_t folds = static_cast<std::int64_t>(a.rows) * a.group;
    float* const totals = a.scratch;
    float* const parts = totals + folds * stride;  // of the current range
    const Work work = prepare(a, parts + folds * stride);
    for (std::int64_t f = 0; f < folds; ++f) Softmax::at(totals + f * stride, dim).clear(dim);
    const std::int64_t end = a.position + a.rows;  // keys of the last row
    for (std::int64_t range = 0; range * kAttentionRange < end; ++range) {
      float* current = range == 0 ? totals : parts;  // range 0 needs no joining
      if (range > 0) {
        for (std::int64_t f = 0; f < folds; ++f) Softmax::at(parts + f * stride, dim).clear(dim);
      }
      fold_range(work, range, end, current);
      if (range == 0) continue;
      const std::int64_t row = range * kAttentionRange - a.position;
      for (std::int64_t f = (row > 0 ? row : 0) * a.group; f < folds; ++f) {
        Softmax::at(totals + f * stride, dim).join(Softmax::at(parts + f * stride, dim), dim);
      }
    }
    for (std::int64_t f = 0; f < folds; ++f) {
      Softmax::at(totals + f * stride, dim)
          .finish(a.layout.head_dim, a.o + f / a.group * a.ldo + f % a.group * a.layout.head_dim);
    }
  }

  static void range(const AttentionArgs& a, std::int64_t range, float* partial) {
    const FlushDenormals flush;
    const std::int64_t dim = Softmax::padded(a);
    const std::int64_t stride = attention_partial_size(a.layout.head_dim);
    for (std::int32_t h = 0; h < a.group; ++h) Softmax::at(partial + h * stride, dim).clear(dim);
    fold_range(prepare(a, a.scratch), range, a.position + 1, partial);
  }

 private:
  /// `scratch` [p, factors].
  static Work prepare(const AttentionArgs& a, float* scratch) {
    const Work work{a, scratch, scratch + kAttentionBlock * kAttentionTile};
    if constexpr (P::kRounds) {
      const std::int32_t dim = a.layout.head_dim;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(a.rows) * a.group; ++i) {
        const float* const q = query_at(a, i);
        float* const to = work.factors + i * attention_query_size(dim);
        for (std::int32_t d = 0; d < dim; d += 32) {
          const auto rounded = [&](std::int32_t at) {
            const std::int32_t left = dim - at;
            return round_bf16_lanes(left >= 16 ? V::load(q + at)
                                               : V::load_n(q + at, left > 0 ? left : 0));
          };
          P::store_factors(rounded(d), rounded(d + 16), to + d / 2 * P::kPairFloats);
        }
      }
    }
    return work;
  }
  /// Query i of [rows, group].
  CAIRN_INLINE static const float* query_at(const AttentionArgs& a, std::int64_t i) {
    return a.q + i / a.group * a.ldq + i % a.group * static_cast<std::int64_t>(a.layout.head_dim);
  }

  /// Folds the tiles of a range that begin before `end`.
  static void fold_range(const Work& work, std::int64_t range, std::int64_t end, float* folds) {
    for (std::int64_t tile = range * kTiles;
         tile < (range + 1) * kTiles && tile * kAttentionTile < end; ++tile) {
      fold_tile(work, tile, folds);
    }
  }

  /// Folds a tile into all rows that see a key of it. folds [rows, group].
  static void fold_tile(const Work& work, std::int64_t index, float* folds) {
    const AttentionArgs& a = work.a;
    const std::int64_t first = index * kAttentionTile;
    const std::int64_t last = a.position + a.rows - 1;  // position of the last row
    const std::size_t keys = a.layer_offset + a.layout.key_offset(a.kv_head);
    Tile tile;
    tile.values = static_cast<std::int64_t>(a.layout.value_offset(a.kv_head) -
                                            a.layout.key_offset(a.kv_head));
    for (std::int64_t b = 0; b < kBlocks; ++b) {
      const std::int64_t block = index * kBlocks + b;
      if (block * kKvBlockTokens > last) break;
      tile.keys[b] = a.blocks[block] + keys;
      const std::int64_t later = block + kBlocks;
      tile.next[b] = later * kKvBlockTokens <= last ? a.blocks[later] + keys : tile.keys[b];
    }
    // Rows before the tile's first key skip it; the next ones see it in part, the rest whole.
    std::int64_t row = first > a.position ? first - a.position : 0;
    for (; row < a.rows && a.position + row + 1 < first + kAttentionTile; ++row) {
      const auto live = static_cast<std::int32_t>(a.position + row + 1 - first);
      fold_same(work, tile, live, row * a.group, (row + 1) * a.group, folds);
    }
    fold_same(work, tile, kAttentionTile, row * a.group,
              a.rows * static_cast<std::int64_t>(a.group), folds);
  }

  /// Folds a tile into the heads [first, end) of [rows, group], which all see the same keys.
  static void fold_same(const Work& work, const Tile& tile, std::int32_t live, std::int64_t first,
                        std::int64_t end, float* folds) {
    if constexpr (V::kAttentionHeads > 4) {
      fold_some<V::kAttentionHeads>(work, tile, live, first, end, folds);
    }
    if constexpr (V::kAttentionHeads >= 4) fold_some<4>(work, tile, live, first, end, folds);
    fold_some<2>(work, tile, live, first, end, folds);
    fold_some<1>(work, tile, live, first, end, folds);
  }

  /// As many of them as go kHeads at a time; `first` moves on.
  template <int kHeads>
  static void fold_some(const Work& work, const Tile& tile, std::int32_t live, std::int64_t& first,
                        std::int64_t end, float* folds) {
    const std::int32_t dim = work.a.layout.head_dim;
    const std::int64_t stride = attention_partial_size(dim);
    for (; first + kHeads <= end; first += kHeads) {
      typename Tiles::template Queries<kHeads> query;
      CAIRN_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        query.q[h] = P::kRounds ? work.factors + (first + h) * attention_query_size(dim)
                                : query_at(work.a, first + h);
      }
      query.folds = folds + first * stride;
      query.stride = stride;
      Tiles::template heads<kHeads>(work.a, query, tile, live, work.p);
    }
  }
};

/// The table's functions on the lanes V.
template <class V>
struct Attention {
  static void run(const AttentionArgs& a) {
    choose(a, [&](auto rows) { decltype(rows)::run(a); });
  }
  static void range(const AttentionArgs& a, std::int64_t range, float* partial) {
    choose(a, [&](auto rows) { decltype(rows)::range(a, range, partial); });
  }
  static void combine(const AttentionArgs& a, std::int64_t ranges, float* partials) {
    const FlushDenormals flush;
    const std::int64_t dim = Fold<V>::padded(a);
    const std::int64_t stride = attention_partial_size(a.layout.head_dim);
    for (std::int32_t h = 0; h < a.group; ++h) {
      const Fold<V> total = Fold<V>::at(partials + h * stride, dim);
      for (std::int64_t r = 1; r < ranges; ++r) {
        total.join(Fold<V>::at(partials + (r * a.group + h) * stride, dim), dim);
      }
      total.finish(a.layout.head_dim, a.o + h * static_cast<std::int64_t>(a.layout.head_dim));
    }
  }

 private:
  template <class Fn>
  static void choose(const AttentionArgs& a, const Fn& fn) {
    if (a.layout.type == KvType::f32) {
      fn(AttentionRows<FmaProducts<V, KvType::f32, false>>{});
    } else if (a.activations == Activations::fp32) {
      fn(AttentionRows<FmaProducts<V, KvType::bf16, false>>{});
    } else {
      fn(AttentionRows<FmaProducts<V, KvType::bf16, true>>{});
    }
  }
};

}  // namespace cairn::kernels
