// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// Block r copies row r, four values a thread: 8 bytes in, 16 bytes out, neighbours adjacent.
struct Embedding {
  using Args = EmbeddingArgs;
  static constexpr const char* kName = "embedding";
  static constexpr int kThreads = 256;

  static __device__ void run(const Args& a) {
    const std::int64_t row = blockIdx.x;
    const std::int64_t token = load_read_only(a.tokens + row);
    const Bf16* from = a.table + token * a.width;
    float* to = a.y + row * a.width;
    for (std::int64_t i = 4 * threadIdx.x; i < a.width; i += 4 * kThreads) {
      const auto packed = load_read_only(reinterpret_cast<const Vec<Bf16, 4>*>(from + i));
      Vec<float, 4> wide;
      for (int j = 0; j < 4; ++j) wide.lane[j] = to_float(packed.lane[j]);
      store_global(reinterpret_cast<Vec<float, 4>*>(to + i), wide);
    }
  }
};

}  // namespace cairn::kernels::cuda
