// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// Block r norms its row and keeps it in registers: each value is read once. Thread t holds the
/// vectors t, t + 256, ... of four values; kVectors of them cover the width, and a thread that has
/// fewer adds nothing, so the order does not depend on kVectors.
template <class Out, int kVectors>
struct AddRmsNorm {
  using Args = AddRmsNormArgs<Out>;
  static constexpr const char* kName = "add_rms_norm";
  static constexpr int kThreads = 256;
  struct Shared {
    float partial[kThreads / 32];
  };
  using V = Vec<float, 4>;

  static __device__ void run(const Args& a, Shared& shared) {
    const std::int64_t source =
        a.from == nullptr ? blockIdx.x : load_read_only(a.from + blockIdx.x);
    const std::int64_t row = source * a.width;
    const bool adds = a.update != nullptr && a.from == nullptr;
    V x[kVectors] = {};
    V w[kVectors] = {};  // loaded early: after the sum its latency would show
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const std::int64_t at = offset(i);
      if (at >= a.width) break;
      x[i] = load_global(reinterpret_cast<const V*>(a.x + row + at));
      w[i] = load_read_only(reinterpret_cast<const V*>(a.w + at));
      if (a.update == nullptr) continue;
      const V add = load_read_only(reinterpret_cast<const V*>(a.update + row + at));
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) x[i].lane[j] = x[i].lane[j] + add.lane[j];
    }
    float sum = 0.0F;
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const std::int64_t at = offset(i);
      if (at >= a.width) break;
      if (adds) store_global(reinterpret_cast<V*>(a.x + row + at), x[i]);
      sum = add_squares(x[i], sum);
    }
    sum = sum_block<kThreads>(sum, shared.partial);
    write(a, x, w, inverse_root(sum / static_cast<float>(a.width) + a.eps));
  }

 private:
  static __device__ std::int64_t offset(int i) {
    return 4 * (static_cast<std::int64_t>(threadIdx.x) + i * kThreads);
  }

  static __device__ void write(const Args& a, const V (&x)[kVectors], const V (&w)[kVectors],
                               float scale) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * a.width;
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const std::int64_t at = offset(i);
      if (at >= a.width) break;
      V y;
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) y.lane[j] = (x[i].lane[j] * scale) * (1.0F + w[i].lane[j]);
      store_global(reinterpret_cast<Vec<Out, 4>*>(a.y + row + at), narrow<Out>(y));
    }
  }
};

/// Groups of kHeadDim / 4 lanes norm one head each, four values a lane.
template <class Out, int kHeadDim>
struct GatedNorm {
  using Args = GatedNormArgs<Out>;
  static constexpr const char* kName = "gated_norm";
  static constexpr int kThreads = 128;
  static constexpr int kLanes = kHeadDim / 4;
  static constexpr int kHeads = kThreads / kLanes;  // a block
  using V = Vec<float, 4>;

  static __device__ void run(const Args& a) {
    const std::int64_t index =
        static_cast<std::int64_t>(blockIdx.x) * kHeads + threadIdx.x / kLanes;
    // Groups past the end work on zeros: the shuffles need whole warps.
    const bool live = index < a.tokens * a.heads;
    const std::int64_t token = index / a.heads;
    const std::int64_t at = 4 * (threadIdx.x % kLanes);
    V o{};
    V z{};
    V w{};
    if (live) {
      const std::int64_t head = index % a.heads;
      o = load_read_only(reinterpret_cast<const V*>(a.o + index * kHeadDim + at));
      z = load_read_only(reinterpret_cast<const V*>(a.z + token * a.ld_z + head * kHeadDim + at));
      w = load_read_only(reinterpret_cast<const V*>(a.w + at));
    }
    const float sum = sum_lanes<kLanes>(add_squares(o, 0.0F));
    const float scale = inverse_root(sum / static_cast<float>(kHeadDim) + a.eps);
    V y;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      y.lane[j] = ((o.lane[j] * scale) * w.lane[j]) * silu_f32(z.lane[j]);
    }
    if (live) {
      store_global(reinterpret_cast<Vec<Out, 4>*>(a.y + index * kHeadDim + at), narrow<Out>(y));
    }
  }
};

}  // namespace cairn::kernels::cuda
