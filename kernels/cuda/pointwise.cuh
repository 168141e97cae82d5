// SPDX-License-Identifier: Apache-2.0
// Kernels without a sum: blockIdx.x is the row, four values a thread, neighbours adjacent.
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/pointwise.hpp"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

constexpr int kPointwiseThreads = 256;

/// Where this thread's four values begin in its row; blocks of a row follow each other in y.
__device__ __forceinline__ std::int64_t pointwise_column() {
  return 4 * (static_cast<std::int64_t>(blockIdx.y) * kPointwiseThreads + threadIdx.x);
}

template <class Out>
struct SigmoidGate {
  using Args = SigmoidGateArgs<Out>;
  static constexpr const char* kName = "sigmoid_gate";
  static constexpr int kThreads = kPointwiseThreads;

  static __device__ void run(const Args& a) {
    using V = Vec<float, 4>;
    const std::int64_t n = static_cast<std::int64_t>(a.heads) * a.head_dim;
    const std::int64_t token = blockIdx.x;
    const std::int64_t i = pointwise_column();
    if (i >= n) return;
    const std::int64_t head = i / a.head_dim;
    const float* gate = a.gate + token * a.ld_gate + head * a.gate_head_stride + i % a.head_dim;
    const V x = load_read_only(reinterpret_cast<const V*>(a.x + token * n + i));
    const V g = load_read_only(reinterpret_cast<const V*>(gate));
    V y;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) y.lane[j] = x.lane[j] * sigmoid_f32(g.lane[j]);
    store_global(reinterpret_cast<Vec<Out, 4>*>(a.y + token * n + i), narrow<Out>(y));
  }
};

template <class Out>
struct Swiglu {
  using Args = SwigluArgs<Out>;
  static constexpr const char* kName = "swiglu";
  static constexpr int kThreads = kPointwiseThreads;

  static __device__ void run(const Args& a) {
    using V = Vec<float, 4>;
    const std::int64_t row = blockIdx.x;
    const std::int64_t i = pointwise_column();
    if (i >= a.n) return;
    const V gate = load_read_only(reinterpret_cast<const V*>(a.gate + row * a.ld_gate + i));
    const V up = load_read_only(reinterpret_cast<const V*>(a.up + row * a.ld_up + i));
    V y;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) y.lane[j] = silu_f32(gate.lane[j]) * up.lane[j];
    store_global(reinterpret_cast<Vec<Out, 4>*>(a.y + row * a.n + i), narrow<Out>(y));
  }
};

}  // namespace cairn::kernels::cuda
