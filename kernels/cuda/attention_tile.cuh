// SPDX-License-Identifier: Apache-2.0
// Folds tiles of 64 keys into the running softmax of up to 64 query rows: what prefill and decode
// share, and with it the order of every sum (docs/order.md).
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

__device__ __forceinline__ void multiply(Bf16, float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  mma_bf16_16x8x16(d, a, b);
}
__device__ __forceinline__ void multiply(F16, float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  mma_f16_16x8x16(d, a, b);
}

/// kRowGroups times 4 warps hold 16 kRowTileCount rows each: warp w of four multiplies q by keys
/// 16 w .. 16 w + 15 of the tile, then the weights of all keys by its quarter of the dims. Keys and
/// values pass through a ring of kStageCount stages, kCuts for the keys of a tile (dims ascending)
/// and kCuts for its values (keys ascending). Neither rows, stages nor cuts reach the order of a
/// sum. Rows of shared memory are 16 bytes longer than their data: an odd number of 16-byte units,
/// so that the eight rows of a matrix lie in different banks.
template <class Element, int kDim, int kRowTileCount, int kRowGroups, int kCuts, int kStageCount>
struct AttentionTile {
  static constexpr int kRowTiles = kRowTileCount;
  static constexpr int kWarps = 4;  // of a row group
  static constexpr int kThreads = 32 * kWarps * kRowGroups;
  static constexpr int kWarpRows = 16 * kRowTiles;
  static constexpr int kRows = kWarpRows * kRowGroups;
  static constexpr int kPad = 8;
  static constexpr int kStageDims = kDim / kCuts;
  static constexpr int kStageKeys = kAttentionTile / kCuts;
  static constexpr int kKeyTiles = kAttentionTile / kWarps / 8;
  static constexpr int kDimTiles = kDim / kWarps / 8;
  static constexpr int kTilesOfRange = kAttentionRange / kAttentionTile;
  static constexpr int kBlocksOfRange = kAttentionRange / kKvBlockTokens;
  static constexpr int kKeyStage = kAttentionTile * (kStageDims + kPad);
  static constexpr int kValueStage = kStageKeys * (kDim + kPad);
  static_assert(kStageDims % 16 == 0 && kStageKeys % 16 == 0 && kKeyTiles == 2);
  static constexpr float kLowest = -__builtin_inff();

  struct Shared {
    alignas(16) Element q[kRows][kDim + kPad];
    alignas(16) Element weights[kRows][kAttentionTile + kPad];
    alignas(16) Element stage[kStageCount][kKeyStage > kValueStage ? kKeyStage : kValueStage];
    float exchange[kWarps][kRows];           // maxima of a tile, later sums of a range
    std::int32_t blocks[2][kBlocksOfRange];  // of the pool: even ranges, odd ranges
  };

  /// What a block works on.
  struct Span {
    PagedKv<Element> kv;
    const std::int32_t* table;  // of its sequence
    QueryTile tile;
    std::int32_t kv_head;
    std::int32_t group;
    float scale;
    std::int32_t first_tile;  // of keys; the first of a range
    std::int32_t last_tile;
    __device__ std::int32_t rows() const { return tile.queries * group; }
    __device__ std::int32_t last_key() const { return tile.position + tile.queries - 1; }
  };

  /// A lane's share of a range: rows 16 m + lane / 4 and + 8 of its warp.
  struct State {
    float values[kRowTiles][kDimTiles][4];
    float top[kRowTiles][2];
    float sum[kRowTiles][2];  // of this lane's keys, until the range ends
  };
  struct Limits {
    std::int32_t key[kRowTiles][2];  // the last that the row sees; -1 for no row
  };

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int column_warp() { return static_cast<int>(threadIdx.x) / 32 % kWarps; }
  static __device__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 / kWarps * kWarpRows;
  }
  /// Row of half h (0 or 1) of row tile m in the block.
  static __device__ int row_of(int m, int h) { return first_row() + 16 * m + 8 * h + lane() / 4; }

  static __device__ Limits limits(const Span& span) {
    Limits limit;
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row = row_of(m, h);
        limit.key[m][h] = row < span.rows() ? span.tile.position + row / span.group : -1;
      }
    }
    return limit;
  }

  static __device__ void clear(State& state) {
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        state.top[m][h] = kLowest;
        state.sum[m][h] = 0.0F;
      }
      CAIRN_UNROLL
      for (int n = 0; n < kDimTiles; ++n) {
        CAIRN_UNROLL
        for (int i = 0; i < 4; ++i) state.values[m][n][i] = 0.0F;
      }
    }
  }

  /// Folds every tile of the span. at_range(range, state) follows the last tile of each range, with
  /// the sums of whole rows; all threads call it.
  template <class AtRange>
  static __device__ void fold(const Span& span, const Element* q, const Limits& limit,
                              Shared& shared, const AtRange& at_range) {
    begin(span, q, shared);
    State state;
    clear(state);
    int stage = 0;
    for (std::int32_t tile = span.first_tile; tile <= span.last_tile; ++tile) {
      float scores[kRowTiles][kKeyTiles][4] = {};
      for (int cut = 0; cut < kCuts; ++cut, ++stage) {
        advance(span, stage, shared);
        if (cut == 0 && tile % kTilesOfRange == 0) list_blocks(span, range_of(tile) + 1, shared);
        multiply_keys(shared.stage[stage % kStageCount], cut, shared, scores);
      }
      weigh(span, tile, limit, scores, shared, state);
      for (int cut = 0; cut < kCuts; ++cut, ++stage) {
        advance(span, stage, shared);
        multiply_values(shared.stage[stage % kStageCount], cut, shared, state);
      }
      if (tile % kTilesOfRange != kTilesOfRange - 1 && tile != span.last_tile) continue;
      sum_rows(shared, state);
      at_range(range_of(tile), state);
      clear(state);
    }
  }

  /// visit(row, dim, values) for what this lane holds: 4 adjacent dims, by exchange with its
  /// neighbour, where it has that many.
  template <class Visit>
  static __device__ void for_values(const float (&values)[kRowTiles][kDimTiles][4],
                                    const Visit& visit) {
    const int dim = column_warp() * (kDim / kWarps);
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        if constexpr (kDimTiles % 2 == 0) {
          CAIRN_UNROLL
          for (int n = 0; n < kDimTiles; n += 2) {
            const bool odd = lane() % 2 != 0;
            visit(m, h, dim + 8 * n + (odd ? 8 : 0) + lane() % 4 / 2 * 4,
                  four_of(odd, values[m][n][2 * h], values[m][n][2 * h + 1],
                          values[m][n + 1][2 * h], values[m][n + 1][2 * h + 1]));
          }
        } else {
          CAIRN_UNROLL
          for (int n = 0; n < kDimTiles; ++n) {
            visit(m, h, dim + 8 * n + lane() % 4 * 2,
                  Vec<float, 2>{{values[m][n][2 * h], values[m][n][2 * h + 1]}});
          }
        }
      }
    }
  }

 private:
  /// Even lanes keep their pair of the first tile of dims and get their neighbour's, odd lanes
  /// likewise of the second.
  static __device__ Vec<float, 4> four_of(bool odd, float a0, float a1, float b0, float b1) {
    const float got0 = __shfl_xor_sync(kFullMask, odd ? a0 : b0, 1);
    const float got1 = __shfl_xor_sync(kFullMask, odd ? a1 : b1, 1);
    return odd ? Vec<float, 4>{{got0, got1, b0, b1}} : Vec<float, 4>{{a0, a1, got0, got1}};
  }

  static __device__ std::int32_t range_of(std::int32_t tile) { return tile / kTilesOfRange; }

  /// Queries, the first stages, and where the first range's blocks are.
  static __device__ void begin(const Span& span, const Element* q, Shared& shared) {
    list_blocks(span, range_of(span.first_tile), shared);
    constexpr int kUnits = kDim / 8;
    for (int c = static_cast<int>(threadIdx.x); c < kRows * kUnits; c += kThreads) {
      const int row = c / kUnits;
      const bool live = row < span.rows();
      const std::int64_t query = span.tile.row + (live ? row / span.group : 0);
      const std::int64_t head = span.kv_head * span.group + (live ? row % span.group : 0);
      const std::int64_t heads = static_cast<std::int64_t>(span.kv.kv_heads) * span.group;
      copy_async<16>(&shared.q[row][c % kUnits * 8],
                     q + (query * heads + head) * kDim + c % kUnits * 8, live);
    }
    __syncthreads();  // the list
    CAIRN_UNROLL
    for (int stage = 0; stage < kStageCount - 1; ++stage) start_stage(span, stage, shared);
  }

  /// The other list is in use: called after the barrier behind which nobody reads this one.
  static __device__ void list_blocks(const Span& span, std::int32_t range, Shared& shared) {
    const auto i = static_cast<std::int32_t>(threadIdx.x);
    const std::int32_t block = range * kBlocksOfRange + i;
    if (i >= kBlocksOfRange || block * kKvBlockTokens > span.last_key()) return;
    store_shared(&shared.blocks[range % 2][i], load_read_only(span.table + block));
  }

  /// Waits for `stage` and starts the one that takes the place of stage - 1.
  static __device__ void advance(const Span& span, int stage, Shared& shared) {
    copy_async_wait<kStageCount - 2>();
    __syncthreads();
    start_stage(span, stage + kStageCount - 1, shared);
  }

  static __device__ void start_stage(const Span& span, int stage, Shared& shared) {
    const std::int32_t tile = span.first_tile + stage / (2 * kCuts);
    const int cut = stage % (2 * kCuts);
    if (tile <= span.last_tile) {
      Element* to = shared.stage[stage % kStageCount];
      const std::int32_t* blocks = shared.blocks[range_of(tile) % 2];
      const std::int32_t key = tile * kAttentionTile;
      if (cut < kCuts) {
        copy_slots<kAttentionTile, kStageDims>(span, span.kv_head, key, cut * kStageDims, blocks,
                                               to);
      } else {
        copy_slots<kStageKeys, kDim>(span, span.kv.kv_heads + span.kv_head,
                                     key + (cut - kCuts) * kStageKeys, 0, blocks, to);
      }
    }
    copy_async_commit();
  }

  /// Slots past the last query are zeros and not read: what lies there may be NaN, or no memory.
  template <int kKeys, int kDims>
  static __device__ void copy_slots(const Span& span, std::int32_t head, std::int32_t first_key,
                                    int first_dim, const std::int32_t* blocks, Element* to) {
    constexpr int kUnits = kDims / 8;
    for (int c = static_cast<int>(threadIdx.x); c < kKeys * kUnits; c += kThreads) {
      const std::int32_t key = first_key + c / kUnits;
      const bool live = key <= span.last_key();
      const std::int64_t block =
          live ? load_shared(blocks + key % kAttentionRange / kKvBlockTokens) : 0;
      const int dim = c % kUnits * 8;
      copy_async<16>(to + c / kUnits * (kDims + kPad) + dim,
                     span.kv.keys(block, head) + key % kKvBlockTokens * kDim + first_dim + dim,
                     live);
    }
  }

  /// Where this lane points for a 16 x 16 tile of `matrix` that is the left operand.
  static __device__ const Element* left(const Element* matrix, int stride) {
    return matrix + lane() % 16 * stride + lane() / 16 * 8;
  }

  static __device__ void multiply_keys(const Element* keys, int cut, Shared& shared,
                                       float (&scores)[kRowTiles][kKeyTiles][4]) {
    constexpr int kStride = kStageDims + kPad;
    const Element* key =
        keys + (16 * column_warp() + lane() / 16 * 8 + lane() % 8) * kStride + lane() / 8 % 2 * 8;
    const Element* query = left(&shared.q[first_row()][cut * kStageDims], kDim + kPad);
    CAIRN_UNROLL
    for (int k = 0; k < kStageDims; k += 16) {
      std::uint32_t b[4];
      load_matrices<4>(key + k, b);
      CAIRN_UNROLL
      for (int m = 0; m < kRowTiles; ++m) {
        std::uint32_t a[4];
        load_matrices<4>(query + 16 * m * (kDim + kPad) + k, a);
        multiply(Element{}, scores[m][0], a, {b[0], b[1]});
        multiply(Element{}, scores[m][1], a, {b[2], b[3]});
      }
    }
  }

  static __device__ void multiply_values(const Element* values, int cut, Shared& shared,
                                         State& state) {
    constexpr int kStride = kDim + kPad;
    constexpr int kWeightStride = kAttentionTile + kPad;
    const Element* weight = left(&shared.weights[first_row()][cut * kStageKeys], kWeightStride);
    const Element* value =
        values + lane() % 16 * kStride + column_warp() * (kDim / kWarps) + lane() / 16 * 8;
    CAIRN_UNROLL
    for (int k = 0; k < kStageKeys; k += 16) {
      std::uint32_t a[kRowTiles][4];
      CAIRN_UNROLL
      for (int m = 0; m < kRowTiles; ++m) {
        load_matrices<4>(weight + 16 * m * kWeightStride + k, a[m]);
      }
      if constexpr (kDimTiles % 2 == 0) {
        CAIRN_UNROLL
        for (int n = 0; n < kDimTiles; n += 2) {
          std::uint32_t b[4];
          load_matrices<4, true>(value + k * kStride + 8 * n, b);
          CAIRN_UNROLL
          for (int m = 0; m < kRowTiles; ++m) {
            multiply(Element{}, state.values[m][n], a[m], {b[0], b[1]});
            multiply(Element{}, state.values[m][n + 1], a[m], {b[2], b[3]});
          }
        }
      } else {
        static_assert(kDimTiles == 1);
        std::uint32_t b[2];  // the upper lanes' addresses are not used
        load_matrices<2, true>(value - lane() / 16 * 8 + k * kStride, b);
        CAIRN_UNROLL
        for (int m = 0; m < kRowTiles; ++m) multiply(Element{}, state.values[m][0], a[m], b);
      }
    }
  }

  /// Scores become weights in shared memory; maxima, sums and values are brought to the new maxima.
  static __device__ void weigh(const Span& span, std::int32_t tile, const Limits& limit,
                               float (&scores)[kRowTiles][kKeyTiles][4], Shared& shared,
                               State& state) {
    const std::int32_t key = tile * kAttentionTile + 16 * column_warp() + lane() % 4 * 2;
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        float top = kLowest;
        CAIRN_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& score = scores[m][i / 2][2 * h + i % 2];
          score = key + i / 2 * 8 + i % 2 <= limit.key[m][h] ? score * span.scale : kLowest;
          top = score > top ? score : top;
        }
        CAIRN_UNROLL
        for (int step = 1; step < 4; step *= 2) {
          const float other = __shfl_xor_sync(kFullMask, top, step);
          top = other > top ? other : top;
        }
        if (lane() % 4 == 0) store_shared(&shared.exchange[column_warp()][row_of(m, h)], top);
      }
    }
    __syncthreads();
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) weigh_row(m, h, scores[m], shared, state);
    }
  }

  static __device__ void weigh_row(int m, int h, const float (&scores)[kKeyTiles][4],
                                   Shared& shared, State& state) {
    const int row = row_of(m, h);
    float top = state.top[m][h];
    CAIRN_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      const float other = load_shared(&shared.exchange[w][row]);
      top = other > top ? other : top;
    }
    // Rows that see no key of the range become NaN here, and nobody reads them.
    const float rescale = exp_f32(state.top[m][h] - top);
    state.top[m][h] = top;
    float sum = 0.0F;
    CAIRN_UNROLL
    for (int n = 0; n < kKeyTiles; ++n) {
      Vec<Element, 2> pair;
      CAIRN_UNROLL
      for (int i = 0; i < 2; ++i) {
        pair.lane[i] = narrow<Element>(exp_f32(scores[n][2 * h + i] - top));
      }
      // What is summed is what is multiplied.
      const float both = to_float(pair.lane[0]) + to_float(pair.lane[1]);
      sum = n == 0 ? both : sum + both;
      store_shared(reinterpret_cast<Vec<Element, 2>*>(
                       &shared.weights[row][16 * column_warp() + 8 * n + lane() % 4 * 2]),
                   pair);
    }
    state.sum[m][h] = fma_rn(state.sum[m][h], rescale, sum);
    CAIRN_UNROLL
    for (int n = 0; n < kDimTiles; ++n) {
      CAIRN_UNROLL
      for (int i = 0; i < 2; ++i) state.values[m][n][2 * h + i] *= rescale;
    }
  }

  /// Sums of lanes become those of rows: four lanes fold by halves, then the four warps.
  static __device__ void sum_rows(Shared& shared, State& state) {
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        const float sum = sum_lanes<4>(state.sum[m][h]);
        if (lane() % 4 == 0) store_shared(&shared.exchange[column_warp()][row_of(m, h)], sum);
      }
    }
    __syncthreads();
    CAIRN_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CAIRN_UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row = row_of(m, h);
        const auto of = [&](int w) { return load_shared(&shared.exchange[w][row]); };
        state.sum[m][h] = (of(0) + of(2)) + (of(1) + of(3));
      }
    }
  }
};

}  // namespace cairn::kernels::cuda
