// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/conv.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// Block (c, t) convolves chunk c in channels [512 t, 512 t + 512), a lane four of them with its
/// window in registers; the last t computes the chunk's gates. A chunk that begins inside its slice
/// takes its window from the rows before. So the running window belongs to the slice's first chunk
/// alone: it reads it and, whatever the slice's length, writes it.
template <int kKeyDim>
struct ConvGates {
  using Args = ConvGatesArgs;
  static constexpr const char* kName = "conv_gates";
  static constexpr int kThreads = 128;
  static constexpr int kChannels = 4 * kThreads;
  static constexpr int kTaps = 4;
  static constexpr int kAhead = 8;  // rows whose loads are under way at once
  using V = Vec<float, 4>;

  static __device__ void run(const Args& a) {
    const PassChunk chunk = a.pass.chunks[blockIdx.x];
    const PassSlice slice = a.pass.slices[chunk.slice];
    if (chunk.token >= slice.tokens) return;  // of a slice that is nothing
    if (blockIdx.y + 1 == gridDim.y) return gates(a, chunk, slice);
    const std::int64_t channel = static_cast<std::int64_t>(blockIdx.y) * kChannels +
                                 4 * static_cast<std::int64_t>(threadIdx.x);
    const std::int64_t first_of_warp = channel - 4 * static_cast<std::int64_t>(threadIdx.x % 32);
    if (first_of_warp >= a.shape.channels()) return;
    convolve(a, chunk, slice, channel, first_of_warp < 2 * a.shape.keys());
  }

 private:
  /// Where the windows of one lane's channels go.
  struct Windows {
    const PassSave* save;  // the next
    const PassSave* end;
    std::int64_t offset;  // of the lane's channels in a slot
    std::int64_t channels;
    bool live;

    __device__ void write(float* state, const V& a, const V& b, const V& c) const {
      if (!live) return;
      float* const window = state + offset;
      store_global(reinterpret_cast<V*>(window), a);
      store_global(reinterpret_cast<V*>(window + channels), b);
      store_global(reinterpret_cast<V*>(window + 2 * channels), c);
    }
  };

  static __device__ int tokens_of(const PassChunk& chunk, const PassSlice& slice) {
    const std::int32_t left = slice.tokens - chunk.token;
    return left < kChunkTokens ? left : kChunkTokens;
  }

  static __device__ void convolve(const Args& a, const PassChunk& chunk, const PassSlice& slice,
                                  std::int64_t lane_channel, bool has_keys) {
    const std::int64_t channels = a.shape.channels();
    // Lanes past the end repeat channel 0 and store nothing: the sums need whole warps.
    const bool live = lane_channel < channels;
    const std::int64_t channel = live ? lane_channel : 0;
    const float* const x = a.x + slice.row * a.ld_x + channel;
    const auto load_row = [&](std::int64_t token) {
      return load_read_only(reinterpret_cast<const V*>(x + token * a.ld_x));
    };
    Windows windows{a.pass.saves + slice.first_save, a.pass.saves + slice.first_save + slice.saves,
                    a.window_offset + channel, channels, live};
    while (windows.save != windows.end && windows.save->tokens <= chunk.token) ++windows.save;
    V weight[kTaps];
    V row[kTaps - 1 + kAhead];  // the window, then the rows ahead
    CAIRN_UNROLL
    for (int j = 0; j < kTaps; ++j) {
      weight[j] = load_read_only(reinterpret_cast<const V*>(a.weight + j * channels + channel));
    }
    CAIRN_UNROLL
    for (int j = 0; j + 1 < kTaps; ++j) {
      if (chunk.token > 0) {
        row[j] = load_row(chunk.token + j - (kTaps - 1));
      } else if (live) {  // or it is channel 0's window, which its own lane writes meanwhile
        row[j] =
            load_global(reinterpret_cast<const V*>(slice.state + windows.offset + j * channels));
      } else {
        row[j] = V{};
      }
    }
    const int tokens = tokens_of(chunk, slice);
    const bool whole = slice.tokens <= kChunkTokens;
    for (int base = 0; base < tokens; base += kAhead) {
      CAIRN_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (base + i >= tokens) break;
        row[kTaps - 1 + i] = load_row(chunk.token + base + i);
      }
      CAIRN_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (base + i >= tokens) break;
        const std::int32_t token = chunk.token + base + i;
        const V y = normed(a.shape, channel, has_keys,
                           activated(weight, row[i], row[i + 1], row[i + 2], row[i + 3]));
        if (live) {
          store_global(reinterpret_cast<V*>(a.y + (slice.row + token) * channels + channel), y);
        }
        if (windows.save != windows.end && windows.save->tokens == token + 1) {
          windows.write(windows.save->state, row[i + 1], row[i + 2], row[i + 3]);
          ++windows.save;
        }
        if (whole && token + 1 == slice.tokens) {
          windows.write(slice.state, row[i + 1], row[i + 2], row[i + 3]);
        }
      }
      CAIRN_UNROLL
      for (int j = 0; j + 1 < kTaps; ++j) row[j] = row[kAhead + j];
    }
    if (chunk.token == 0 && !whole) {
      windows.write(slice.state, load_row(slice.tokens - 3), load_row(slice.tokens - 2),
                    load_row(slice.tokens - 1));
    }
  }

  static __device__ V activated(const V (&w)[kTaps], const V& a, const V& b, const V& c,
                                const V& d) {
    V y;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      float acc = w[0].lane[j] * a.lane[j];
      acc = fma_rn(w[1].lane[j], b.lane[j], acc);
      acc = fma_rn(w[2].lane[j], c.lane[j], acc);
      y.lane[j] = silu_f32(fma_rn(w[3].lane[j], d.lane[j], acc));
    }
    return y;
  }

  /// The L2 norm of q and k: a key head is kKeyDim / 4 neighbouring lanes.
  static __device__ V normed(const RecurrentShape& shape, std::int64_t channel, bool has_keys,
                             V y) {
    if (!has_keys) return y;
    const float norm = inverse_root(sum_lanes<kKeyDim / 4>(add_squares(y, 0.0F)) + 1e-6F);
    const float q_scale = inverse_root(static_cast<float>(kKeyDim));
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (channel < 2 * shape.keys()) y.lane[j] = y.lane[j] * norm;
      if (channel < shape.keys()) y.lane[j] = y.lane[j] * q_scale;
    }
    return y;
  }

  /// Two heads a lane.
  static __device__ void gates(const Args& a, const PassChunk& chunk, const PassSlice& slice) {
    using Pair = Vec<float, 2>;
    const int pairs = a.shape.value_heads / 2;
    const int count = tokens_of(chunk, slice) * pairs;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      const std::int64_t row = slice.row + chunk.token + i / pairs;
      const int head = 2 * (i % pairs);
      const Pair a_in = load_read_only(reinterpret_cast<const Pair*>(a.a + row * a.ld_x + head));
      const Pair b_in = load_read_only(reinterpret_cast<const Pair*>(a.b + row * a.ld_x + head));
      const Pair a_log = load_read_only(reinterpret_cast<const Pair*>(a.a_log + head));
      const Pair bias = load_read_only(reinterpret_cast<const Pair*>(a.dt_bias + head));
      V out;
      CAIRN_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float step = softplus_f32(a_in.lane[j] + bias.lane[j]);
        out.lane[2 * j] = exp_f32(-exp_f32(a_log.lane[j]) * step);
        out.lane[2 * j + 1] = sigmoid_f32(b_in.lane[j]);
      }
      store_global(reinterpret_cast<V*>(a.gates + 2 * (row * a.shape.value_heads + head)), out);
    }
  }
};

}  // namespace cairn::kernels::cuda
