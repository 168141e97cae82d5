// SPDX-License-Identifier: Apache-2.0
// Sums over lanes and threads in one fixed order.
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// acc plus the squares of four values, one fma each, ascending.
__device__ __forceinline__ float add_squares(const Vec<float, 4>& x, float acc) {
  CAIRN_UNROLL
  for (int j = 0; j < 4; ++j) acc = fma_rn(x.lane[j], x.lane[j], acc);
  return acc;
}

/// Lanes fold by halves inside groups of kLanes (a power of 2): j + (j + kLanes / 2), ..., j + (j +
/// 1). Every lane gets the sum, with the same bits, since a + b is b + a. Whole warps only.
template <int kLanes>
__device__ __forceinline__ float sum_lanes(float x) {
  CAIRN_UNROLL
  for (int step = kLanes / 2; step > 0; step /= 2) x = x + __shfl_xor_sync(kFullMask, x, step);
  return x;
}

/// Each warp folds its lanes, then the warps' sums fold by halves. Every thread gets the sum. Needs
/// a barrier before `partial` is used again.
template <int kThreads>
__device__ __forceinline__ float sum_block(float x, float (&partial)[kThreads / 32]) {
  constexpr int kWarps = kThreads / 32;
  static_assert((kWarps & (kWarps - 1)) == 0);
  x = sum_lanes<32>(x);
  if (threadIdx.x % 32 == 0) store_shared(&partial[threadIdx.x / 32], x);
  __syncthreads();
  return sum_lanes<kWarps>(load_shared(&partial[threadIdx.x % kWarps]));
}

}  // namespace cairn::kernels::cuda
