// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

struct EmbeddingArgs {
  const std::int32_t* tokens = nullptr;  // [rows], each in [0, vocab)
  const Bf16* table = nullptr;           // [vocab, width] bf16, 8-byte aligned
  std::int64_t rows = 0;
  std::int64_t width = 0;  // a multiple of 4
  float* y = nullptr;      // [rows, width] fp32, 16-byte aligned
};

Grid embedding_grid(const EmbeddingArgs& args);

/// y[r] = table[tokens[r]], widened exactly. Device pointers; queued on `stream`. Throws
/// InvariantError for a width it does not take, DeviceError when the launch is refused.
void embedding(Stream stream, const EmbeddingArgs& args);

}  // namespace cairn::kernels::cuda
