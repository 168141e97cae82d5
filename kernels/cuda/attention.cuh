// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention_tile.cuh"

namespace cairn::kernels::cuda {

/// How two running softmaxes are joined: each is multiplied by its weight.
struct JoinWeights {
  float top;    // maximum of both
  float total;  // weight of the total so far
  float part;   // weight of the range that joins it
};
__device__ __forceinline__ JoinWeights join_weights(float total_top, float part_top) {
  const float top = part_top > total_top ? part_top : total_top;
  return {top, exp_f32(total_top - top), exp_f32(part_top - top)};
}
/// The one function that adds a range to the total, for the denominator and each value.
__device__ __forceinline__ float join_range(float total, float part, const JoinWeights& w) {
  return fma_rn(total, w.total, part * w.part);
}
/// A value over the denominator. Adding 0 makes -0 a 0: which of the two a value that underflowed
/// is would depend on the tiles that other rows need.
__device__ __forceinline__ float divide_by_sum(float value, float inverse) {
  return value * inverse + 0.0F;
}

/// Writes a row's result: gated and narrowed.
template <class Element, class Out>
struct AttentionOutput {
  using Args = AttentionArgs<Element, Out>;

  /// `row` counts queries and heads of the group: query row / group, head row % group.
  template <int kDim, int kCount>
  static __device__ void write(const Args& a, const QueryTile& tile, std::int32_t kv_head,
                               std::int32_t row, int dim, const Vec<float, kCount>& value) {
    const std::int64_t query = tile.row + row / a.group;
    const std::int64_t head = static_cast<std::int64_t>(kv_head) * a.group + row % a.group;
    Vec<float, kCount> y = value;
    if (a.gate != nullptr) {
      const auto gate = load_read_only(reinterpret_cast<const Vec<float, kCount>*>(
          a.gate + query * a.ld_gate + head * a.gate_head_stride + dim));
      CAIRN_UNROLL
      for (int i = 0; i < kCount; ++i) y.lane[i] = y.lane[i] * sigmoid_f32(gate.lane[i]);
    }
    const std::int64_t heads = static_cast<std::int64_t>(a.kv.kv_heads) * a.group;
    store_global(reinterpret_cast<Vec<Out, kCount>*>(a.y + (query * heads + head) * kDim + dim),
                 narrow<Out>(y));
  }
};

/// The span of blockIdx.x's query tile and blockIdx.y's kv head, over all keys.
template <class Tile, class Element, class Out>
__device__ __forceinline__ typename Tile::Span whole_span(const AttentionArgs<Element, Out>& a) {
  typename Tile::Span span;
  span.kv = a.kv;
  span.tile = load_read_only(a.tiles + blockIdx.x);
  span.table = a.kv.tables + span.tile.sequence * a.kv.table_stride;
  span.kv_head = static_cast<std::int32_t>(blockIdx.y);
  span.group = a.group;
  span.scale = a.scale;
  span.first_tile = 0;
  span.last_tile = span.last_key() / kAttentionTile;
  return span;
}

/// One block a query tile and kv head; the total of all ranges stays in registers.
template <class Element, class Out, int kDim>
struct AttentionPrefill {
  // Of 256 dims: 62.25 KiB of shared memory.
  using Tile = AttentionTile<Element, kDim, 2, 2, kDim == 256 ? 4 : 2, 2>;
  using Args = AttentionArgs<Element, Out>;
  using Shared = typename Tile::Shared;
  static constexpr const char* kName = "attention_prefill";
  static constexpr int kThreads = Tile::kThreads;
  static_assert(Tile::kRows == kPrefillTileRows);

  static __device__ void run(const Args& a, Shared& shared) {
    const auto span = whole_span<Tile>(a);
    if (span.tile.queries == 0) return;
    const auto limit = Tile::limits(span);
    typename Tile::State total;
    Tile::clear(total);
    Tile::fold(span, a.q, limit, shared, [&](std::int32_t range, const typename Tile::State& part) {
      join(range, limit, part, total);
    });
    CAIRN_UNROLL
    for (auto& sums : total.sum) {
      CAIRN_UNROLL
      for (float& sum : sums) sum = 1.0F / sum;
    }
    Tile::for_values(total.values, [&](int m, int h, int dim, auto value) {
      const std::int32_t row = Tile::row_of(m, h);
      if (row >= span.rows()) return;
      for (float& x : value.lane) x = divide_by_sum(x, total.sum[m][h]);
      AttentionOutput<Element, Out>::template write<kDim>(a, span.tile, span.kv_head, row, dim,
                                                          value);
    });
  }

 private:
  /// Rows that end before the range leave it out.
  static __device__ void join(std::int32_t range, const typename Tile::Limits& limit,
                              const typename Tile::State& part, typename Tile::State& total) {
    CAIRN_UNROLL
    for (int m = 0; m < Tile::kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        if (limit.key[m][h] < range * kAttentionRange) continue;
        const JoinWeights w = join_weights(total.top[m][h], part.top[m][h]);
        total.top[m][h] = w.top;
        total.sum[m][h] = join_range(total.sum[m][h], part.sum[m][h], w);
        CAIRN_UNROLL
        for (int n = 0; n < Tile::kDimTiles; ++n) {
          CAIRN_UNROLL
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            total.values[m][n][i] = join_range(total.values[m][n][i], part.values[m][n][i], w);
          }
        }
      }
    }
  }
};

/// Where a decode row's ranges are kept: values [tiles, kv_heads, rows, ranges, head_dim], then a
/// maximum and a denominator of each.
template <class Element, class Out>
struct Partials {
  const AttentionDecodeArgs<Element, Out>& args;

  __device__ std::int64_t index(std::int64_t tile, std::int32_t kv_head, std::int32_t row,
                                std::int32_t range) const {
    const std::int64_t rows = args.max_queries * args.group;
    return ((tile * args.kv.kv_heads + kv_head) * rows + row) * args.ranges + range;
  }
  __device__ float* values(std::int64_t index) const {
    return args.scratch + index * args.kv.head_dim;
  }
  __device__ Vec<float, 2>* scales(std::int64_t index) const {
    const std::int64_t all =
        args.tile_count * args.kv.kv_heads * args.max_queries * args.group * args.ranges;
    return reinterpret_cast<Vec<float, 2>*>(values(all)) + index;
  }
};

/// One block a query tile, kv head and range (blockIdx.z); the rows' parts go to scratch.
template <class Element, class Out, int kDim>
struct AttentionRanges {
  // Of 256 dims: 62.25 KiB of shared memory.
  using Tile = AttentionTile<Element, kDim, 1, 1, 2, 3>;
  using Args = AttentionDecodeArgs<Element, Out>;
  using Shared = typename Tile::Shared;
  static constexpr const char* kName = "attention_ranges";
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kBlocksPerMultiprocessor = 3;
  static_assert(Tile::kRows == kDecodeTileRows);

  static __device__ void run(const Args& a, Shared& shared) {
    auto span = whole_span<Tile>(a);
    const auto range = static_cast<std::int32_t>(blockIdx.z);
    if (span.tile.queries == 0 || range * kAttentionRange > span.last_key()) return;
    span.first_tile = range * Tile::kTilesOfRange;
    const std::int32_t end = span.first_tile + Tile::kTilesOfRange - 1;
    span.last_tile = span.last_tile < end ? span.last_tile : end;
    const auto limit = Tile::limits(span);
    Tile::fold(span, a.q, limit, shared,
               [&](std::int32_t, const typename Tile::State& part) { write(a, span, part); });
  }

 private:
  /// Rows that end before the range are written too, and not read.
  static __device__ void write(const Args& a, const typename Tile::Span& span,
                               const typename Tile::State& part) {
    const Partials<Element, Out> to{a};
    const auto index = [&](int m, int h) {
      return to.index(blockIdx.x, span.kv_head, Tile::row_of(m, h),
                      static_cast<std::int32_t>(blockIdx.z));
    };
    Tile::for_values(part.values, [&](int m, int h, int dim, const auto& value) {
      if (Tile::row_of(m, h) >= span.rows()) return;
      using V = std::remove_cvref_t<decltype(value)>;
      store_global(reinterpret_cast<V*>(to.values(index(m, h)) + dim), value);
    });
    if (threadIdx.x >= 32 || Tile::lane() % 4 != 0) return;
    CAIRN_UNROLL
    for (int h = 0; h < 2; ++h) {
      if (Tile::row_of(0, h) >= span.rows()) continue;
      store_global(to.scales(index(0, h)), Vec<float, 2>{{part.top[0][h], part.sum[0][h]}});
    }
  }
};

/// Joins the ranges of a row: kDim / 4 lanes, four dims each.
template <class Element, class Out, int kDim>
struct AttentionJoin {
  using Args = AttentionDecodeArgs<Element, Out>;
  static constexpr const char* kName = "attention_join";
  static constexpr int kThreads = 64;
  static constexpr int kLanes = kDim / 4;
  static constexpr int kRows = kThreads / kLanes;
  using V = Vec<float, 4>;

  static __device__ void run(const Args& a) {
    const QueryTile tile = load_read_only(a.tiles + blockIdx.x);
    const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
    const auto row = static_cast<std::int32_t>(blockIdx.z * kRows + threadIdx.x / kLanes);
    if (row >= tile.queries * a.group) return;
    const int dim = 4 * static_cast<int>(threadIdx.x % kLanes);
    const std::int32_t ranges = (tile.position + row / a.group) / kAttentionRange + 1;
    const Partials<Element, Out> from{a};
    const std::int64_t first = from.index(blockIdx.x, kv_head, row, 0);
    float top = -__builtin_inff();
    float sum = 0.0F;
    V total{};
    for (std::int32_t range = 0; range < ranges; ++range) {
      const auto scale = load_read_only(from.scales(first + range));
      const V part = load_read_only(reinterpret_cast<const V*>(from.values(first + range) + dim));
      const JoinWeights w = join_weights(top, scale.lane[0]);
      top = w.top;
      sum = join_range(sum, scale.lane[1], w);
      CAIRN_UNROLL
      for (int i = 0; i < 4; ++i) total.lane[i] = join_range(total.lane[i], part.lane[i], w);
    }
    const float inverse = 1.0F / sum;
    CAIRN_UNROLL
    for (float& x : total.lane) x = divide_by_sum(x, inverse);
    AttentionOutput<Element, Out>::template write<kDim>(a, tile, kv_head, row, dim, total);
  }
};

}  // namespace cairn::kernels::cuda
