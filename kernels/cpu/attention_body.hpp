// SPDX-License-Identifier: Apache-2.0
// Causal attention over paged keys and values in two fixed levels, once for every instruction set.
//
// Tiles of 64 keys are folded into the running softmax of their absolute range of 512 keys, ranges
// into the row's total in ascending order. Where a tile starts depends on absolute positions only,
// and each row decides about rescaling alone, so neither chunking nor batching reaches a row's
// bits. Bounds per row, key and query head: 4 head_dim operations; per row and kv head 4 head_dim
// bytes a key (bf16), shared by the group.
#pragma once

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/math_body.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::kernels {

template <class V>
struct Attention {
  static constexpr int kBlocks = kAttentionTile / kKvBlockTokens;
  static_assert(V::kAttentionHeads <= kAttentionBlock);

  /// A running softmax of one query head: accumulator [padded head_dim], then maximum and sum. Of
  /// bf16 values, 16 lanes hold the even and the next 16 the odd dims of 32 (of whole 32s only):
  /// a shift and a mask widen them.
  struct Fold {
    float* acc;
    float* maximum;
    float* sum;
  };
  CAIRN_INLINE static std::int64_t padded(const AttentionArgs& a) {
    return (a.layout.head_dim + 15) / 16 * 16;
  }
  CAIRN_INLINE static Fold fold_at(float* p, std::int64_t padded_dim) {
    return {p, p + padded_dim, p + padded_dim + 1};
  }
  static void clear(const Fold& f, std::int64_t padded_dim) {
    for (std::int64_t d = 0; d < padded_dim; d += 16) V::zero().store(f.acc + d);
    *f.maximum = -__builtin_inff();
    *f.sum = 0.0F;
  }

  /// The keys and values of one tile, and what is read after them.
  struct Tile {
    const std::byte* keys[kBlocks];
    const std::byte* vals[kBlocks];
    const std::byte* next[kBlocks];
  };

  /// Query heads of any rows that see the same keys of a tile; fold i stands at
  /// folds + i * stride.
  template <int kHeads>
  struct Queries {
    const float* q[kHeads];
    float* folds;
    std::int64_t stride;
  };

  template <int kHeads, int kVectors>
  CAIRN_INLINE static void add_dim(const Queries<kHeads>& query, std::int32_t d, const V* key,
                                   V (*acc)[kVectors]) {
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const V x = V::set1(query.q[h][d]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[h][c] = V::fma(x, key[c], acc[h][c]);
    }
  }

  /// q K^T of kHeads heads with kVectors blocks of 16 keys from `b`: one accumulator per score,
  /// dims ascending.
  template <bool kHalf, int kHeads, int kVectors>
  static void scores(const Queries<kHeads>& query, std::int32_t head_dim, const Tile& tile, int b,
                     float* out) {  // [kHeads, 64]
    V acc[kHeads][kVectors];
    CAIRN_UNROLL
    for (auto& row : acc) {
      CAIRN_UNROLL
      for (V& x : row) x = V::zero();
    }
    for (std::int32_t d = 0; d < head_dim; d += 2) {
      V key[kVectors];
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        // The values, which values() walks in strips, arrive in memory order meanwhile.
        __builtin_prefetch(tile.vals[b + c] + d * (kHalf ? 32 : 64), 0, 2);
        key[c] = key_of<kHalf, false>(tile.keys[b + c], d);
      }
      add_dim<kHeads, kVectors>(query, d, key, acc);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) key[c] = key_of<kHalf, true>(tile.keys[b + c], d);
      add_dim<kHeads, kVectors>(query, d + 1, key, acc);
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[h][c].store(out + h * kAttentionTile + (b + c) * 16);
    }
  }
  /// Dim d (even), or with kOdd d + 1, of the 16 keys of a block.
  template <bool kHalf, bool kOdd>
  CAIRN_INLINE static V key_of(const std::byte* keys, std::int32_t d) {
    if constexpr (kHalf) {
      return kOdd ? V::load_high(keys + d * 32) : V::load_low(keys + d * 32);
    } else {
      return V::load(reinterpret_cast<const float*>(keys) + (d + (kOdd ? 1 : 0)) * 16);
    }
  }

  /// How the values of a strip of dims are read.
  enum class Strip : std::uint8_t {
    pairs,  // whole 32s of bf16: even dims, then odd ones
    odd,    // of such a 32 the odd dims alone
    plain,
    part,  // fewer than 16
  };
  template <bool kHalf, Strip kStrip>
  CAIRN_INLINE static V value_of(const std::byte* row, int c, int lanes) {
    if constexpr (!kHalf) {
      const auto* from = reinterpret_cast<const float*>(row) + 16 * c;
      return kStrip == Strip::part ? V::load_n(from, lanes) : V::load(from);
    } else if constexpr (kStrip == Strip::pairs || kStrip == Strip::odd) {
      const std::byte* words = row + c / 2 * 64;
      return kStrip == Strip::odd || c % 2 != 0 ? V::load_high(words) : V::load_low(words);
    } else {
      const auto* from = reinterpret_cast<const Bf16*>(row) + 16 * c;
      return kStrip == Strip::part ? V::load_bf16_n(from, lanes) : V::load_bf16(from);
    }
  }

  /// acc = acc * rescale + sum over keys of p v, keys ascending, for kVectors vectors of dims that
  /// are read from dim `d` and accumulated at `at`; slots past `live` are never read.
  template <bool kHalf, Strip kStrip, int kHeads, int kVectors>
  static void values(const float* p, const float* rescale, const Tile& tile, std::int32_t live,
                     std::int32_t head_dim, std::int64_t d, std::int64_t at,
                     const Queries<kHeads>& query) {
    V sum[kHeads][kVectors];
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        sum[h][c] =
            V::mul(V::load(query.folds + h * query.stride + at + 16 * c), V::set1(rescale[h]));
      }
    }
    const auto row_bytes = head_dim * static_cast<std::int64_t>(kHalf ? 2 : 4);
    const int lanes = static_cast<int>(head_dim - d);
    for (std::int32_t b = 0; b * kKvBlockTokens < live; ++b) {
      const std::byte* row = tile.vals[b] + d * (kHalf ? 2 : 4);
      const std::byte* ahead = tile.next[b] + d * (kHalf ? 2 : 4);
      const std::int32_t left = live - b * kKvBlockTokens;
      const float* weight = p + b * kKvBlockTokens;
      const std::int32_t end = left < kKvBlockTokens ? left : kKvBlockTokens;
      for (std::int32_t j = 0; j < end; ++j, row += row_bytes, ahead += row_bytes) {
        // The next tile's keys fill as many bytes as this one's values.
        CAIRN_UNROLL
        for (int c = 0; c < kVectors * (kHalf ? 32 : 64); c += 64) {
          __builtin_prefetch(ahead + c, 0, 2);
        }
        V v[kVectors];
        CAIRN_UNROLL
        for (int c = 0; c < kVectors; ++c) v[c] = value_of<kHalf, kStrip>(row, c, lanes);
        CAIRN_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          const V x = V::set1(weight[h * kAttentionTile + j]);
          CAIRN_UNROLL
          for (int c = 0; c < kVectors; ++c) sum[h][c] = V::fma(x, v[c], sum[h][c]);
        }
      }
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        sum[h][c].store(query.folds + h * query.stride + at + 16 * c);
      }
    }
  }

  template <bool kHalf, int kHeads>
  static void all_values(const float* p, const float* rescale, const Tile& tile, std::int32_t live,
                         std::int32_t head_dim, const Queries<kHeads>& query) {
    constexpr int kN = V::kAttentionVectors;
    constexpr Strip kWhole = kHalf ? Strip::pairs : Strip::plain;
    std::int64_t d = 0;
    if constexpr (kN > 1) {
      for (; d + 16 * kN <= head_dim; d += 16 * kN) {
        values<kHalf, kWhole, kHeads, kN>(p, rescale, tile, live, head_dim, d, d, query);
      }
    }
    if constexpr (kHalf) {
      for (; d + 32 <= head_dim; d += 32) {
        values<kHalf, Strip::pairs, kHeads, 1>(p, rescale, tile, live, head_dim, d, d, query);
        values<kHalf, Strip::odd, kHeads, 1>(p, rescale, tile, live, head_dim, d, d + 16, query);
      }
    }
    for (; d + 16 <= head_dim; d += 16) {
      values<kHalf, Strip::plain, kHeads, 1>(p, rescale, tile, live, head_dim, d, d, query);
    }
    if (d < head_dim) {
      values<kHalf, Strip::part, kHeads, 1>(p, rescale, tile, live, head_dim, d, d, query);
    }
  }

  /// Folds the `live` first keys of a tile into the folds of kHeads heads. `live` >= 1.
  template <bool kHalf, int kHeads>
  static void fold_heads(const AttentionArgs& a, const Queries<kHeads>& query, const Tile& tile,
                         std::int32_t live, float* p) {  // p [kHeads, 64]
    constexpr int kN = V::kAttentionVectors;
    const std::int32_t head_dim = a.layout.head_dim;
    const int blocks = (live + kKvBlockTokens - 1) / kKvBlockTokens;
    int b = 0;
    for (; b + kN <= blocks; b += kN) scores<kHalf, kHeads, kN>(query, head_dim, tile, b, p);
    if constexpr (kN > 1) {
      for (; b < blocks; ++b) scores<kHalf, kHeads, 1>(query, head_dim, tile, b, p);
    }

    const V scale = V::set1(a.scale);
    const V lowest = V::set1(-__builtin_inff());
    const std::int64_t dim = padded(a);
    float sums[kHeads];
    alignas(64) float rescale[16] = {};  // first how much each maximum grew
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const Fold f = fold_at(query.folds + h * query.stride, dim);
      V s[kBlocks];
      CAIRN_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        const int left = live - 16 * i;
        s[i] = lowest;
        if (left >= 16) {
          s[i] = V::mul(V::load(p + h * kAttentionTile + 16 * i), scale);
        } else if (left > 0) {  // selection, not multiplication: a dead slot may hold NaN
          s[i] = V::select(V::first_n(left),
                           V::mul(V::load(p + h * kAttentionTile + 16 * i), scale), lowest);
        }
      }
      const float tile_maximum = V::reduce_max(V::max(V::max(s[0], s[1]), V::max(s[2], s[3])));
      const float maximum = tile_maximum > *f.maximum ? tile_maximum : *f.maximum;
      rescale[h] = *f.maximum - maximum;
      *f.maximum = maximum;
      CAIRN_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        s[i] = exp_lanes(V::sub(s[i], V::set1(maximum)));
        s[i].store(p + h * kAttentionTile + 16 * i);
      }
      sums[h] = V::reduce_add(V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
    }
    exp_lanes(V::load(rescale)).store(rescale);
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const Fold f = fold_at(query.folds + h * query.stride, dim);
      *f.sum = __builtin_fmaf(*f.sum, rescale[h], sums[h]);
    }
    all_values<kHalf, kHeads>(p, rescale, tile, live, head_dim, query);
  }

  /// Folds the tile into `count` heads, those at and after `first` of [rows, group], which all see
  /// the same keys.
  template <bool kHalf, int kHeads>
  static void fold_some(const AttentionArgs& a, const Tile& tile, std::int32_t live,
                        std::int64_t& first, std::int64_t end, float* folds, float* p) {
    const std::int64_t stride = padded(a) + 16;
    for (; first + kHeads <= end; first += kHeads) {
      Queries<kHeads> query;
      CAIRN_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        query.q[h] = a.q + (first + h) / a.group * a.ldq +
                     (first + h) % a.group * static_cast<std::int64_t>(a.layout.head_dim);
      }
      query.folds = folds + first * stride;
      query.stride = stride;
      fold_heads<kHalf, kHeads>(a, query, tile, live, p);
    }
  }
  template <bool kHalf>
  static void fold_same(const AttentionArgs& a, const Tile& tile, std::int32_t live,
                        std::int64_t first, std::int64_t end, float* folds, float* p) {
    if constexpr (V::kAttentionHeads > 4) {
      fold_some<kHalf, V::kAttentionHeads>(a, tile, live, first, end, folds, p);
    }
    if constexpr (V::kAttentionHeads >= 4) {
      fold_some<kHalf, 4>(a, tile, live, first, end, folds, p);
    }
    fold_some<kHalf, 2>(a, tile, live, first, end, folds, p);
    fold_some<kHalf, 1>(a, tile, live, first, end, folds, p);
  }

  /// Folds a tile into all rows that see a key of it. folds [rows, group].
  template <bool kHalf>
  static void fold_tile(const AttentionArgs& a, std::int64_t index, float* folds, float* p) {
    const std::int64_t first = index * kAttentionTile;
    const std::int64_t last = a.position + a.rows - 1;  // position of the last row
    Tile tile;
    for (std::int64_t b = 0; b < kBlocks; ++b) {
      const std::int64_t block = index * kBlocks + b;
      if (block * kKvBlockTokens > last) break;
      const std::byte* layer = a.blocks[block] + a.layer_offset;
      tile.keys[b] = layer + a.layout.key_offset(a.kv_head);
      tile.vals[b] = layer + a.layout.value_offset(a.kv_head);
      const std::int64_t later = block + kBlocks;
      tile.next[b] = later * kKvBlockTokens <= last
                         ? a.blocks[later] + a.layer_offset + a.layout.key_offset(a.kv_head)
                         : tile.keys[b];
    }
    // Rows before the tile's first key skip it; the next ones see it in part, the rest whole.
    std::int64_t row = first > a.position ? first - a.position : 0;
    for (; row < a.rows && a.position + row + 1 < first + kAttentionTile; ++row) {
      const auto live = static_cast<std::int32_t>(a.position + row + 1 - first);
      fold_same<kHalf>(a, tile, live, row * a.group, (row + 1) * a.group, folds, p);
    }
    fold_same<kHalf>(a, tile, kAttentionTile, row * a.group,
                     a.rows * static_cast<std::int64_t>(a.group), folds, p);
  }

  /// The one function that joins ranges, in ascending order: total <- total + part.
  static void fold_range(const Fold& total, const Fold& part, std::int64_t dim) {
    const float maximum = *part.maximum > *total.maximum ? *part.maximum : *total.maximum;
    const V a = exp_lanes(V::set1(*total.maximum - maximum));
    const V b = exp_lanes(V::set1(*part.maximum - maximum));
    *total.sum = __builtin_fmaf(*total.sum, a.first(), *part.sum * b.first());
    *total.maximum = maximum;
    for (std::int64_t d = 0; d < dim; d += 16) {
      V::fma(V::load(total.acc + d), a, V::mul(V::load(part.acc + d), b)).store(total.acc + d);
    }
  }

  template <bool kHalf>
  static void finish(const Fold& total, std::int32_t head_dim, float* o) {
    const V inverse = V::set1(1.0F / *total.sum);
    std::int64_t d = 0;
    if constexpr (kHalf) {
      for (; d + 32 <= head_dim; d += 32) {
        V first;
        V second;
        V::interleave(V::mul(V::load(total.acc + d), inverse),
                      V::mul(V::load(total.acc + d + 16), inverse), first, second);
        first.store(o + d);
        second.store(o + d + 16);
      }
    }
    for (; d < head_dim; d += 16) {
      const V y = V::mul(V::load(total.acc + d), inverse);
      if (head_dim - d >= 16) {
        y.store(o + d);
      } else {
        y.store_n(o + d, static_cast<int>(head_dim - d));
      }
    }
  }

  template <bool kHalf>
  static void rows_of(const AttentionArgs& a) {
    const std::int64_t dim = padded(a);
    const std::int64_t stride = dim + 16;  // attention_partial_size
    float* parts = a.scratch;              // [rows, group] folds of the current range
    float* totals = parts + a.rows * a.group * stride;
    float* p = totals + a.rows * a.group * stride;
    const std::int64_t folds = static_cast<std::int64_t>(a.rows) * a.group;
    for (std::int64_t f = 0; f < folds; ++f) clear(fold_at(totals + f * stride, dim), dim);
    const std::int64_t end = a.position + a.rows;  // keys of the last row
    constexpr std::int64_t kTiles = kAttentionRange / kAttentionTile;
    for (std::int64_t range = 0; range * kAttentionRange < end; ++range) {
      float* current = range == 0 ? totals : parts;  // range 0 needs no joining
      if (range > 0) {
        for (std::int64_t f = 0; f < folds; ++f) clear(fold_at(parts + f * stride, dim), dim);
      }
      for (std::int64_t tile = range * kTiles;
           tile < (range + 1) * kTiles && tile * kAttentionTile < end; ++tile) {
        fold_tile<kHalf>(a, tile, current, p);
      }
      if (range == 0) continue;
      const std::int64_t row = range * kAttentionRange - a.position;
      for (std::int64_t f = (row > 0 ? row : 0) * a.group; f < folds; ++f) {
        fold_range(fold_at(totals + f * stride, dim), fold_at(parts + f * stride, dim), dim);
      }
    }
    for (std::int64_t f = 0; f < folds; ++f) {
      finish<kHalf>(fold_at(totals + f * stride, dim), a.layout.head_dim,
                    a.o + f / a.group * a.ldo + f % a.group * a.layout.head_dim);
    }
  }

  static void run(const AttentionArgs& a) {
    if (a.layout.type == KvType::bf16) {
      rows_of<true>(a);
    } else {
      rows_of<false>(a);
    }
  }

  static void range(const AttentionArgs& a, std::int64_t range, float* partial) {
    const std::int64_t dim = padded(a);
    const std::int64_t stride = dim + 16;
    for (std::int32_t h = 0; h < a.group; ++h) clear(fold_at(partial + h * stride, dim), dim);
    constexpr std::int64_t kTiles = kAttentionRange / kAttentionTile;
    for (std::int64_t tile = range * kTiles;
         tile < (range + 1) * kTiles && tile * kAttentionTile <= a.position; ++tile) {
      if (a.layout.type == KvType::bf16) {
        fold_tile<true>(a, tile, partial, a.scratch);
      } else {
        fold_tile<false>(a, tile, partial, a.scratch);
      }
    }
  }

  static void combine(const AttentionArgs& a, std::int64_t ranges, float* partials) {
    const std::int64_t dim = padded(a);
    const std::int64_t stride = dim + 16;
    for (std::int32_t h = 0; h < a.group; ++h) {
      const Fold total = fold_at(partials + h * stride, dim);
      for (std::int64_t r = 1; r < ranges; ++r) {
        fold_range(total, fold_at(partials + (r * a.group + h) * stride, dim), dim);
      }
      float* const o = a.o + h * static_cast<std::int64_t>(a.layout.head_dim);
      if (a.layout.type == KvType::bf16) {
        finish<true>(total, a.layout.head_dim, o);
      } else {
        finish<false>(total, a.layout.head_dim, o);
      }
    }
  }
};

}  // namespace cairn::kernels
