// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/gemm_tile.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

template <class Weight, class Out>
struct GemmLaunch {
  GemmArgs<Weight, Out> args;
  std::int32_t steps;          // of kGemmStep
  std::int32_t segment_steps;  // the last segment may have fewer
  std::int32_t segments;
  bool split;
};

/// Block (x, y, z) computes row tile x, column tile y; all segments, or segment z when split. The
/// stages of k flow through shared memory without a stop between segments: a stage is refilled
/// after the barrier that shows that every warp has left it. With kSwiglu a tile's columns are 16
/// of G and the same 16 of U in turn, so that a lane ends with both.
template <class Weight, class Out, bool kSwiglu, class Tile>
struct Gemm {
  using Args = GemmLaunch<Weight, Out>;
  static constexpr const char* kName = kSwiglu ? "gemm_swiglu" : "gemm";
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kStages = Tile::kStages;
  static constexpr int kRowTiles = Tile::kRowTiles;
  static constexpr int kRowBytes = 2 * Tile::kDepth;
  struct Stage {
    std::byte x[Tile::kRows][kRowBytes];
    GemmStage<Weight, Tile> weight;
  };
  struct Shared {
    alignas(128) Stage stage[kStages];
  };
  using V = Vec<float, 4>;

  static __device__ void run(const Args& a, Shared& shared) {
    Gemm block(a, shared);
    if (!a.split) {
      block.sum_segments(0, a.segments);
    } else {
      const int segment = static_cast<int>(blockIdx.z);
      block.sum_segments(segment, segment + 1);
      block.store_sums(segment);
      if (!block.last_of_tile()) return;
      block.add_stored();
    }
    block.write();
  }

 private:
  __device__ __forceinline__ Gemm(const Args& launch, Shared& memory)
      : a(launch.args), launch(launch), shared(memory) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    row_begin = static_cast<std::int64_t>(blockIdx.x) * Tile::kRows;
    column_begin = static_cast<std::int64_t>(blockIdx.y) * kOwnColumns;
    warp_row = warp / Tile::kWarpsAcross * 16 * kRowTiles;
    warp_column = warp % Tile::kWarpsAcross * 32;
  }

  // Columns of y that a tile has, and all of them.
  static constexpr int kOwnColumns = kSwiglu ? Tile::kColumns / 2 : Tile::kColumns;
  __device__ __forceinline__ std::int64_t own_columns() const { return kSwiglu ? a.n / 2 : a.n; }

  /// The column of y for column c of the tile, and the row of the weight.
  __device__ __forceinline__ std::int64_t out_column(int c) const {
    return column_begin + (kSwiglu ? c / 32 * 16 + c % 16 : c);
  }
  __device__ __forceinline__ std::int64_t weight_row(int c) const {
    return out_column(c) + (kSwiglu ? c / 16 % 2 * (a.n / 2) : 0);
  }

  __device__ __forceinline__ void start(int stage, std::int64_t k_begin) {
    copy_tile<kThreads>(
        shared.stage[stage].x, 2 * (a.k - k_begin),
        [&](int r) {
          return reinterpret_cast<const std::byte*>(a.x + (row_begin + r) * a.ldx + k_begin);
        },
        [&](int r) { return row_begin + r < a.rows; });
    shared.stage[stage].weight.copy(
        a.weight, a.n, k_begin, a.k, [&](int c) { return weight_row(c); },
        [&](int c) { return out_column(c) < own_columns(); });
  }

  __device__ __forceinline__ void multiply(const Stage& stage,
                                           float (&part)[kRowTiles][4][4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    CAIRN_UNROLL
    for (int step = 0; step < Tile::kDepth / 16; ++step) {
      const GemmColumns columns = stage.weight.load(warp_column, step);
      CAIRN_UNROLL
      for (int m = 0; m < kRowTiles; ++m) {
        const int row = warp_row + 16 * m + lane % 16;
        std::uint32_t rows[4];
        load_matrices<4>(&stage.x[row][swizzled<kRowBytes>(row, 2 * step + lane / 16)], rows);
        CAIRN_UNROLL
        for (int j = 0; j < 4; ++j) multiply_bf16(part[m][j], rows, columns.b[j]);
      }
    }
  }

  /// Segments first .. last - 1, each summed from zero, added up in ascending order.
  __device__ __forceinline__ void sum_segments(int first, int last) {
    constexpr int kStagesAStep = kGemmStep / Tile::kDepth;
    const int steps_of_segment = launch.segment_steps * kStagesAStep;
    const int all = launch.steps * kStagesAStep;
    const int begin = first * steps_of_segment;
    const int end = last * steps_of_segment < all ? last * steps_of_segment : all;
    const auto start_step = [&](int step) {
      if (step < end)
        start((step - begin) % kStages, static_cast<std::int64_t>(step) * Tile::kDepth);
      copy_async_commit();
    };
    for (int i = 0; i < kStages - 1; ++i) start_step(begin + i);
    for (int step = begin; step < end;) {
      const int segment_end = step + steps_of_segment < end ? step + steps_of_segment : end;
      const bool is_first = step == begin;
      float part[kRowTiles][4][4] = {};
      for (; step < segment_end; ++step) {
        copy_async_wait<kStages - 2>();
        __syncthreads();
        start_step(step + kStages - 1);
        multiply(shared.stage[(step - begin) % kStages], part);
      }
      each([&](int m, int j, int i) {
        sums[m][j][i] = is_first ? part[m][j][i] : sums[m][j][i] + part[m][j][i];
      });
    }
  }

  template <class Body>
  static __device__ __forceinline__ void each(const Body& body) {
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) {
        CAIRN_UNROLL
        for (int i = 0; i < 4; ++i) body(m, j, i);
      }
    }
  }

  /// body(row, column of the tile, m, half, pair) for each four sums in neighbouring columns that
  /// this lane has: sums[m][2 pair] and [2 pair + 1], words 2 half and 2 half + 1 of each.
  template <class Body>
  __device__ __forceinline__ void each_four(const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::int64_t row = row_begin + warp_row + 16 * m + 8 * half + lane / 4;
        if (row >= a.rows) continue;
        CAIRN_UNROLL
        for (int pair = 0; pair < 2; ++pair) {
          const int column = warp_column + 16 * pair + lane % 4 * 4;
          if (out_column(column) < own_columns()) body(row, column, m, half, pair);
        }
      }
    }
  }

  __device__ __forceinline__ V four(int m, int half, int pair) const {
    return {sums[m][2 * pair][2 * half], sums[m][2 * pair][2 * half + 1],
            sums[m][2 * pair + 1][2 * half], sums[m][2 * pair + 1][2 * half + 1]};
  }
  __device__ __forceinline__ void set_four(int m, int half, int pair, const V& v) {
    CAIRN_UNROLL
    for (int i = 0; i < 4; ++i) sums[m][2 * pair + i / 2][2 * half + i % 2] = v.lane[i];
  }

  /// A segment's sums lie at [segment, row, row of the weight].
  __device__ __forceinline__ V* stored(std::int64_t segment, std::int64_t row, int column) const {
    return reinterpret_cast<V*>(a.workspace.sums + (segment * a.rows + row) * a.n +
                                weight_row(column));
  }

  __device__ __forceinline__ void store_sums(int segment) const {
    each_four([&](std::int64_t row, int column, int m, int half, int pair) {
      store_global(stored(segment, row, column), four(m, half, pair));
    });
  }

  /// Whether this block is the last of its tile's segments; the sums of the others are then
  /// visible.
  __device__ __forceinline__ bool last_of_tile() const {
    __threadfence();
    __syncthreads();
    bool last = false;
    if (threadIdx.x == 0) {
      std::int32_t* arrived =
          a.workspace.arrived + static_cast<std::int64_t>(blockIdx.x) * gridDim.y + blockIdx.y;
      last = atomicAdd(arrived, 1) == launch.segments - 1;
      if (last) atomicExch(arrived, 0);
    }
    const bool mine = __syncthreads_count(last ? 1 : 0) > 0;
    __threadfence();
    return mine;
  }

  __device__ __forceinline__ void add_stored() {
    constexpr int kAtOnce = 4;  // segments on their way: one by one each would cost a latency
    each_four([&](std::int64_t row, int column, int m, int half, int pair) {
      V sum = load_global(stored(0, row, column));
      for (int begin = 1; begin < launch.segments; begin += kAtOnce) {
        V part[kAtOnce] = {};
        CAIRN_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          if (begin + i < launch.segments) part[i] = load_global(stored(begin + i, row, column));
        }
        CAIRN_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          if (begin + i >= launch.segments) break;
          CAIRN_UNROLL
          for (int c = 0; c < 4; ++c) sum.lane[c] = sum.lane[c] + part[i].lane[c];
        }
      }
      set_four(m, half, pair, sum);
    });
  }

  __device__ __forceinline__ void write() const {
    each_four([&](std::int64_t row, int column, int m, int half, int pair) {
      auto* to = reinterpret_cast<Vec<Out, 4>*>(a.y + row * a.ldy + out_column(column));
      if constexpr (kSwiglu) {
        if (pair != 0) return;
        const V gate = four(m, half, 0);
        const V up = four(m, half, 1);
        V y;
        CAIRN_UNROLL
        for (int i = 0; i < 4; ++i) y.lane[i] = silu_f32(gate.lane[i]) * up.lane[i];
        store_global(to, narrow<Out>(y));
      } else {
        store_global(to, narrow<Out>(four(m, half, pair)));
      }
    });
  }

  const GemmArgs<Weight, Out>& a;
  const Args& launch;
  Shared& shared;
  std::int64_t row_begin, column_begin;
  int warp_row, warp_column;
  float sums[kRowTiles][4][4];
};

}  // namespace cairn::kernels::cuda
