// SPDX-License-Identifier: Apache-2.0
// Bounds per token and head: 4 fp32 operations an element of S (decay, prediction, update, output).
// The chain from token to token is the update, the prediction's fma and three shuffles; decay and
// the output of the token before fill the time of the shuffles.
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/delta_rule.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// Columns of S that one block carries.
constexpr int kDeltaTile = 16;

/// Eight lanes share kColumns columns of S and keep them in registers over the whole slice; lane l
/// holds the rows kVec (8 g + l) + i. Inputs come through two stages of shared memory.
template <int kKeyDim, int kColumns>
struct DeltaRule {
  using Args = DeltaRuleArgs;
  static constexpr const char* kName = "delta_rule";
  static constexpr int kLanes = 8;
  static constexpr int kWarpColumns = 32 / kLanes * kColumns;
  static constexpr int kThreads = 32 * kDeltaTile / kWarpColumns;
  static constexpr int kRows = kKeyDim / kLanes;  // a lane
  static constexpr int kVec = kRows < 4 ? kRows : 4;
  static constexpr int kGroups = kRows / kVec;
  static constexpr int kTokens = 8;  // a stage

  struct Stage {
    alignas(16) float k[kTokens][kKeyDim];
    float q[kTokens][kKeyDim];
    float v[kTokens][kDeltaTile];
    float gates[kTokens][2];
  };
  struct Shared {
    Stage stages[2];
    float o[kTokens][kDeltaTile];
  };

  static __device__ void run(const Args& a, Shared& shared) {
    const PassSlice slice = a.pass.slices[blockIdx.z];
    if (slice.tokens <= 0) return;
    copy_stage(a, slice, 0, shared.stages[0]);
    const std::int64_t offset = state_offset(a);
    State s = {};
    load_state(slice.state + offset, a.shape.value_dim, s);
    const PassSave* save = a.pass.saves + slice.first_save;
    const PassSave* const end = save + slice.saves;
    for (std::int32_t first = 0; first < slice.tokens; first += kTokens) {
      const int number = first / kTokens;
      copy_stage(a, slice, first + kTokens, shared.stages[(number + 1) % 2]);
      copy_async_wait<1>();
      __syncthreads();
      const Stage& stage = shared.stages[number % 2];
      const int tokens = tokens_at(slice, first);
      Rows k = {};
      Rows q = {};
      load_rows(stage.k[0], k);
      for (int t = 0; t < tokens; ++t) {
        advance(stage, t, t + 1 < tokens ? t + 1 : t, k, q, s, shared.o);
        if (save != end && save->tokens == first + t + 1) {
          store_state(save->state + offset, a.shape.value_dim, s);
          ++save;
        }
      }
      read_out(q, s, shared.o[tokens - 1], true);
      __syncthreads();  // o is complete and the stage may be filled again
      store_outputs(a, slice.row + first, tokens, shared.o);
    }
    store_state(slice.state + offset, a.shape.value_dim, s);
  }

 private:
  using Part = Vec<float, kVec>;
  using Row = Vec<float, kColumns>;
  using Rows = Part[kGroups];        // of k or q: those of this lane
  using State = Row[kGroups][kVec];  // this lane's share of S

  static __device__ int lane_row() { return static_cast<int>(threadIdx.x) % kLanes * kVec; }
  /// The first column of this lane, in the tile.
  static __device__ int lane_column() { return static_cast<int>(threadIdx.x) / kLanes * kColumns; }
  static __device__ std::int64_t tile_column() {
    return static_cast<std::int64_t>(blockIdx.x) * kDeltaTile;
  }
  static __device__ int tokens_at(const PassSlice& slice, std::int32_t first) {
    const std::int32_t left = slice.tokens - first;
    return left < kTokens ? left : kTokens;
  }

  /// Starts the copies of a stage and closes their group; an empty one past the slice's end.
  static __device__ void copy_stage(const Args& a, const PassSlice& slice, std::int32_t first,
                                    Stage& stage) {
    const int tokens = tokens_at(slice, first);
    const std::int64_t channels = a.shape.channels();
    const std::int64_t head = blockIdx.y;
    const std::int64_t key_head = head / (a.shape.value_heads / a.shape.key_heads);
    const float* const row = a.qkv + (slice.row + first) * channels;
    const float* const q = row + key_head * kKeyDim;
    const float* const v = row + 2 * a.shape.keys() + head * a.shape.value_dim + tile_column();
    const float* const gates = a.gates + 2 * ((slice.row + first) * a.shape.value_heads + head);
    constexpr int kKeyVectors = kKeyDim / 4;
    constexpr int kTileVectors = kDeltaTile / 4;
    const auto thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < tokens * kKeyVectors; i += kThreads) {
      const int t = i / kKeyVectors;
      const int at = 4 * (i % kKeyVectors);
      copy_async<16>(&stage.q[t][at], q + t * channels + at);
      copy_async<16>(&stage.k[t][at], q + a.shape.keys() + t * channels + at);
    }
    for (int i = thread; i < tokens * kTileVectors; i += kThreads) {
      const int t = i / kTileVectors;
      const int at = 4 * (i % kTileVectors);
      copy_async<16>(&stage.v[t][at], v + t * channels + at);
    }
    if (thread < tokens) {
      copy_async<8>(stage.gates[thread],
                    gates + 2 * static_cast<std::int64_t>(thread) * a.shape.value_heads);
    }
    copy_async_commit();
  }

  /// One token: `k` is its key on entry and that of token `next` on return, `q` the query of the
  /// token before and then its own. Writes the output of the token before.
  static __device__ void advance(const Stage& stage, int t, int next, Rows& k, Rows& q, State& s,
                                 float (&o)[kTokens][kDeltaTile]) {
    const auto gates = load_shared(reinterpret_cast<const Vec<float, 2>*>(stage.gates[t]));
    const auto v = load_shared(reinterpret_cast<const Row*>(&stage.v[t][lane_column()]));
    Row seen = product(k, s);
    CAIRN_UNROLL
    for (int c = 0; c < kColumns; ++c) seen.lane[c] = sum_lanes<kLanes>(seen.lane[c]);
    // Without a branch it fills the time of the shuffles above; at t = 0 the result is dropped.
    read_out(q, s, o[t > 0 ? t - 1 : 0], t > 0);
    const float decay = gates.lane[0];
    const float beta = gates.lane[1];
    Row d;
    CAIRN_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      d.lane[c] = fma_rn(-(beta * decay), seen.lane[c], beta * v.lane[c]);
    }
    CAIRN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      CAIRN_UNROLL
      for (int i = 0; i < kVec; ++i) {
        CAIRN_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          float& x = s[g][i].lane[c];
          x = fma_rn(k[g].lane[i], d.lane[c], decay * x);
        }
      }
    }
    load_rows(stage.q[t], q);
    load_rows(stage.k[next], k);
  }

  /// This lane's share of x^T S: even and odd rows apart, each ascending, then their sum.
  static __device__ Row product(const Rows& x, const State& s) {
    Row even{};
    Row odd{};
    CAIRN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      CAIRN_UNROLL
      for (int i = 0; i < kVec; ++i) {
        CAIRN_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          float& sum = i % 2 == 0 ? even.lane[c] : odd.lane[c];
          sum = fma_rn(x[g].lane[i], s[g][i].lane[c], sum);
        }
      }
    }
    CAIRN_UNROLL
    for (int c = 0; c < kColumns; ++c) even.lane[c] = even.lane[c] + odd.lane[c];
    return even;
  }

  /// o = S^T q of this warp's columns. Lanes fold by halves as in sum_lanes, but while a lane has
  /// several columns it keeps half of them: the first step's upper lanes the upper half, and so on.
  static __device__ void read_out(const Rows& q, const State& s, float (&o)[kDeltaTile],
                                  bool wanted) {
    Row sum = product(q, s);
    const auto lane = static_cast<int>(threadIdx.x);
    int column = lane_column();
    int step = kLanes / 2;
    CAIRN_UNROLL
    for (int half = kColumns / 2; half > 0; half /= 2) {
      const bool upper = (lane & step) != 0;
      CAIRN_UNROLL
      for (int c = 0; c < half; ++c) {
        const float keep = upper ? sum.lane[c + half] : sum.lane[c];
        const float give = upper ? sum.lane[c] : sum.lane[c + half];
        sum.lane[c] = keep + __shfl_xor_sync(kFullMask, give, step);
      }
      column += upper ? half : 0;
      step /= 2;
    }
    constexpr int kSharers = kLanes / kColumns;  // lanes that end with the same column
    const float total = sum_lanes<kSharers>(sum.lane[0]);
    if (wanted && lane % kSharers == 0) store_shared(&o[column], total);
  }

  static __device__ void load_rows(const float (&from)[kKeyDim], Rows& rows) {
    CAIRN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      rows[g] = load_shared(reinterpret_cast<const Part*>(&from[kVec * kLanes * g + lane_row()]));
    }
  }

  static __device__ std::int64_t state_offset(const Args& a) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kKeyDim + lane_row();
    return a.state_offset + row * a.shape.value_dim + tile_column() + lane_column();
  }
  static __device__ void load_state(const float* from, std::int64_t stride, State& s) {
    CAIRN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      CAIRN_UNROLL
      for (int i = 0; i < kVec; ++i) {
        s[g][i] =
            load_global(reinterpret_cast<const Row*>(from + (kVec * kLanes * g + i) * stride));
      }
    }
  }
  static __device__ void store_state(float* to, std::int64_t stride, const State& s) {
    CAIRN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      CAIRN_UNROLL
      for (int i = 0; i < kVec; ++i) {
        store_global(reinterpret_cast<Row*>(to + (kVec * kLanes * g + i) * stride), s[g][i]);
      }
    }
  }

  static __device__ void store_outputs(const Args& a, std::int64_t row, int tokens,
                                       const float (&o)[kTokens][kDeltaTile]) {
    using V = Vec<float, 4>;
    constexpr int kTileVectors = kDeltaTile / 4;
    for (int i = static_cast<int>(threadIdx.x); i < tokens * kTileVectors; i += kThreads) {
      const int t = i / kTileVectors;
      const int at = 4 * (i % kTileVectors);
      float* const to = a.o + (row + t) * a.shape.values() +
                        static_cast<std::int64_t>(blockIdx.y) * a.shape.value_dim + tile_column();
      store_global(reinterpret_cast<V*>(to + at),
                   load_shared(reinterpret_cast<const V*>(&o[t][at])));
    }
  }
};

}  // namespace cairn::kernels::cuda
