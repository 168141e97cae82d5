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

  /// A running softmax of one query head: accumulator [padded head_dim], then maximum and sum.
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

  /// q K^T of kHeads heads with kVectors blocks of 16 keys: one accumulator per score, dims
  /// ascending.
  template <bool kHalf, int kHeads, int kVectors>
  static void scores(const float* q, std::int32_t head_dim, const std::byte* const* keys,
                     const std::byte* const* vals, float* out) {  // out [kHeads, 64]
    V acc[kHeads][kVectors];
    CAIRN_UNROLL
    for (auto& row : acc) {
      CAIRN_UNROLL
      for (V& x : row) x = V::zero();
    }
    for (std::int32_t d = 0; d < head_dim; d += 2) {
      V even[kVectors];
      V odd[kVectors];
      CAIRN_UNROLL
      for (int b = 0; b < kVectors; ++b) {
        // The values, which values() walks in strips, arrive in memory order meanwhile.
        __builtin_prefetch(vals[b] + d * (kHalf ? 32 : 64), 0, 2);
        if constexpr (kHalf) {
          V::load_pairs(keys[b] + d * 32, even[b], odd[b]);
        } else {
          const auto* p = reinterpret_cast<const float*>(keys[b]) + d * 16;
          even[b] = V::load(p);
          odd[b] = V::load(p + 16);
        }
      }
      CAIRN_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        const V x = V::set1(q[h * static_cast<std::int64_t>(head_dim) + d]);
        CAIRN_UNROLL
        for (int b = 0; b < kVectors; ++b) acc[h][b] = V::fma(x, even[b], acc[h][b]);
      }
      CAIRN_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        const V x = V::set1(q[h * static_cast<std::int64_t>(head_dim) + d + 1]);
        CAIRN_UNROLL
        for (int b = 0; b < kVectors; ++b) acc[h][b] = V::fma(x, odd[b], acc[h][b]);
      }
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int b = 0; b < kVectors; ++b) acc[h][b].store(out + h * kAttentionTile + b * 16);
    }
  }

  /// acc = acc * rescale + sum over keys of p v, keys ascending; slots past `live` are never read.
  template <bool kHalf, bool kFull, int kHeads, int kVectors>
  static void values(const float* p, const float* rescale, const std::byte* const* blocks,
                     const std::byte* const* next, std::int32_t live, std::int32_t head_dim,
                     std::int64_t d, int lanes, float* acc, std::int64_t stride) {
    V sum[kHeads][kVectors];
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        sum[h][c] = V::mul(V::load(acc + h * stride + d + 16 * c), V::set1(rescale[h]));
      }
    }
    for (std::int32_t j = 0; j < live; ++j) {
      const std::int64_t at =
          ((j % kKvBlockTokens) * static_cast<std::int64_t>(head_dim) + d) * (kHalf ? 2 : 4);
      const std::byte* row = blocks[j / kKvBlockTokens] + at;
      // The next tile's keys fill as many bytes as this one's values.
      CAIRN_UNROLL
      for (int c = 0; c < kVectors * (kHalf ? 32 : 64); c += 64) {
        __builtin_prefetch(next[j / kKvBlockTokens] + at + c, 0, 2);
      }
      V v[kVectors];
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        if constexpr (kHalf) {
          const auto* from = reinterpret_cast<const Bf16*>(row) + 16 * c;
          v[c] = kFull ? V::load_bf16(from) : V::load_bf16_n(from, lanes);
        } else {
          const auto* from = reinterpret_cast<const float*>(row) + 16 * c;
          v[c] = kFull ? V::load(from) : V::load_n(from, lanes);
        }
      }
      CAIRN_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        const V x = V::set1(p[h * kAttentionTile + j]);
        CAIRN_UNROLL
        for (int c = 0; c < kVectors; ++c) sum[h][c] = V::fma(x, v[c], sum[h][c]);
      }
    }
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) sum[h][c].store(acc + h * stride + d + 16 * c);
    }
  }

  /// Folds the `live` first keys of a tile into the folds of kHeads heads. `live` >= 1.
  template <bool kHalf, int kHeads>
  static void fold_heads(const AttentionArgs& a, const float* q, const std::byte* const* keys,
                         const std::byte* const* vals, const std::byte* const* next,
                         std::int32_t live, float* folds, std::int64_t fold_stride, float* p) {
    constexpr int kN = V::kAttentionVectors;
    const std::int32_t head_dim = a.layout.head_dim;
    const int blocks = (live + kKvBlockTokens - 1) / kKvBlockTokens;
    int b = 0;
    for (; b + kN <= blocks; b += kN) {
      scores<kHalf, kHeads, kN>(q, head_dim, keys + b, vals + b, p + 16 * b);
    }
    for (; b < blocks; ++b) scores<kHalf, kHeads, 1>(q, head_dim, keys + b, vals + b, p + 16 * b);

    const V scale = V::set1(a.scale);
    const V lowest = V::set1(-__builtin_inff());
    const std::int64_t dim = padded(a);
    float rescale[kHeads];
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      float* row = p + h * kAttentionTile;
      V s[kBlocks];
      CAIRN_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        const int left = live - 16 * i;
        s[i] = lowest;
        if (left >= 16) {
          s[i] = V::mul(V::load(row + 16 * i), scale);
        } else if (left > 0) {  // selection, not multiplication: a dead slot may hold NaN
          s[i] = V::select(V::first_n(left), V::mul(V::load(row + 16 * i), scale), lowest);
        }
      }
      const Fold f = fold_at(folds + h * fold_stride, dim);
      const float tile_maximum = V::reduce_max(V::max(V::max(s[0], s[1]), V::max(s[2], s[3])));
      const float maximum = tile_maximum > *f.maximum ? tile_maximum : *f.maximum;
      const V m = V::set1(maximum);
      CAIRN_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        s[i] = exp_lanes(V::sub(s[i], m));
        s[i].store(row + 16 * i);
      }
      const float tile_sum = V::reduce_add(V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
      rescale[h] = exp_lanes(V::set1(*f.maximum - maximum)).first();
      *f.sum = __builtin_fmaf(*f.sum, rescale[h], tile_sum);
      *f.maximum = maximum;
    }
    std::int64_t d = 0;
    for (; d + 16 * kN <= head_dim; d += 16 * kN) {
      values<kHalf, true, kHeads, kN>(p, rescale, vals, next, live, head_dim, d, 16, folds,
                                      fold_stride);
    }
    for (; d + 16 <= head_dim; d += 16) {
      values<kHalf, true, kHeads, 1>(p, rescale, vals, next, live, head_dim, d, 16, folds,
                                     fold_stride);
    }
    if (d < head_dim) {
      values<kHalf, false, kHeads, 1>(p, rescale, vals, next, live, head_dim, d, head_dim - d,
                                      folds, fold_stride);
    }
  }

  template <bool kHalf, int kHeads>
  static void fold_group(const AttentionArgs& a, std::int32_t& h, const float* q,
                         const std::byte* const* keys, const std::byte* const* vals,
                         const std::byte* const* next, std::int32_t live, float* folds,
                         std::int64_t fold_stride, float* p) {
    for (; h + kHeads <= a.group; h += kHeads) {
      fold_heads<kHalf, kHeads>(a, q + h * static_cast<std::int64_t>(a.layout.head_dim), keys, vals,
                                next, live, folds + h * fold_stride, fold_stride,
                                p + h * kAttentionTile);
    }
  }

  template <bool kHalf>
  static void fold_tile(const AttentionArgs& a, std::int64_t tile, std::int64_t row, float* folds,
                        std::int64_t fold_stride, float* p) {
    const std::int64_t first = tile * kAttentionTile;
    const std::int64_t left = a.position + row + 1 - first;
    const auto live = static_cast<std::int32_t>(left < kAttentionTile ? left : kAttentionTile);
    const std::byte* keys[kBlocks];
    const std::byte* vals[kBlocks];
    const std::byte* next[kBlocks];
    for (int b = 0; b * kKvBlockTokens < live; ++b) {
      const std::byte* layer = a.blocks[tile * kBlocks + b] + a.layer_offset;
      keys[b] = layer + a.layout.key_offset(a.kv_head);
      vals[b] = layer + a.layout.value_offset(a.kv_head);
      const std::int64_t later = tile * kBlocks + b + kBlocks;
      next[b] = later * kKvBlockTokens <= a.position + row
                    ? a.blocks[later] + a.layer_offset + a.layout.key_offset(a.kv_head)
                    : keys[b];
    }
    const float* q = a.q + row * a.ldq;
    std::int32_t h = 0;
    if constexpr (V::kAttentionHeads >= 4) {
      fold_group<kHalf, 4>(a, h, q, keys, vals, next, live, folds, fold_stride, p);
    }
    if constexpr (V::kAttentionHeads >= 2) {
      fold_group<kHalf, 2>(a, h, q, keys, vals, next, live, folds, fold_stride, p);
    }
    fold_group<kHalf, 1>(a, h, q, keys, vals, next, live, folds, fold_stride, p);
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

  static void finish(const Fold& total, std::int32_t head_dim, float* o) {
    const V inverse = V::set1(1.0F / *total.sum);
    for (std::int64_t d = 0; d < head_dim; d += 16) {
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
        // Rows before the tile's first key skip it.
        std::int64_t row = tile * kAttentionTile - a.position;
        for (row = row > 0 ? row : 0; row < a.rows; ++row) {
          fold_tile<kHalf>(a, tile, row, current + row * a.group * stride, stride, p);
        }
      }
      if (range == 0) continue;
      const std::int64_t row = range * kAttentionRange - a.position;
      for (std::int64_t f = (row > 0 ? row : 0) * a.group; f < folds; ++f) {
        fold_range(fold_at(totals + f * stride, dim), fold_at(parts + f * stride, dim), dim);
      }
    }
    for (std::int64_t f = 0; f < folds; ++f) {
      finish(fold_at(totals + f * stride, dim), a.layout.head_dim,
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
        fold_tile<true>(a, tile, 0, partial, stride, a.scratch);
      } else {
        fold_tile<false>(a, tile, 0, partial, stride, a.scratch);
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
      finish(total, a.layout.head_dim, a.o + h * static_cast<std::int64_t>(a.layout.head_dim));
    }
  }
};

}  // namespace cairn::kernels
