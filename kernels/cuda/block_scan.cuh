// SPDX-License-Identifier: Apache-2.0
// Whole numbers over the threads of a block: sums in no particular order, since they are exact.
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"

namespace cairn::kernels::cuda {

/// 64 bits as CUDA's atomics and shuffles spell them.
using Word = unsigned long long;
static_assert(sizeof(Word) == 8);

struct ScannedWord {
  Word before = 0;  // sum over the threads before this one
  Word total = 0;
};

/// All threads of the block, between barriers of its own.
template <int kThreads>
__device__ __forceinline__ ScannedWord scan_block(Word x, Word (&warps)[kThreads / 32]) {
  const unsigned lane = threadIdx.x % 32;
  Word sum = x;
  CAIRN_UNROLL
  for (unsigned step = 1; step < 32; step *= 2) {
    const Word other = __shfl_up_sync(kFullMask, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // `warps` may still be read
  if (lane == 31) store_shared(&warps[threadIdx.x / 32], sum);
  __syncthreads();
  ScannedWord out;
  out.before = sum - x;
  CAIRN_UNROLL
  for (unsigned w = 0; w < kThreads / 32; ++w) {
    const Word other = load_shared(&warps[w]);
    if (w < threadIdx.x / 32) out.before += other;
    out.total += other;
  }
  return out;
}

/// The largest of the block's. As scan_block.
template <int kThreads>
__device__ __forceinline__ Word max_block(Word x, Word (&warps)[kThreads / 32]) {
  CAIRN_UNROLL
  for (int step = 16; step > 0; step /= 2) {
    const Word other = __shfl_xor_sync(kFullMask, x, step);
    x = other > x ? other : x;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) store_shared(&warps[threadIdx.x / 32], x);
  __syncthreads();
  CAIRN_UNROLL
  for (int w = 0; w < kThreads / 32; ++w) {
    const Word other = load_shared(&warps[w]);
    x = other > x ? other : x;
  }
  return x;
}

/// Whether this block is the last of `blocks` to arrive; what the others wrote is then visible.
/// `arrived` is 0 before the first and after the last.
__device__ __forceinline__ bool last_to_arrive(unsigned* arrived, unsigned blocks) {
  __threadfence();
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1U) == blocks - 1;
    if (last) atomicExch(arrived, 0U);
  }
  const bool mine = __syncthreads_count(last ? 1 : 0) > 0;
  __threadfence();
  return mine;
}

}  // namespace cairn::kernels::cuda
