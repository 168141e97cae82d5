// SPDX-License-Identifier: Apache-2.0
// What one lane moves at once: up to 16 bytes, aligned to its size.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vec {
  T lane[kCount];
};
static_assert(sizeof(Vec<float, 4>) == 16 && alignof(Vec<Bf16, 4>) == 8);

/// fp32 as an output type: itself, or rounded to nearest even.
template <class Out>
__device__ __forceinline__ Out narrow(float x) {
  if constexpr (std::is_same_v<Out, float>) {
    return x;
  } else if constexpr (std::is_same_v<Out, F16>) {
    return to_f16(x);
  } else {
    return to_bf16(x);
  }
}

template <class Out, int kCount>
__device__ __forceinline__ Vec<Out, kCount> narrow(const Vec<float, kCount>& x) {
  Vec<Out, kCount> y;
  for (int i = 0; i < kCount; ++i) y.lane[i] = narrow<Out>(x.lane[i]);
  return y;
}

}  // namespace cairn::kernels::cuda
