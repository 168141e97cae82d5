// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/conv.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {

Grid conv_gates_grid(const ConvGatesArgs& args) {
  const std::int64_t tiles = ceil_div(args.shape.channels(), ConvGates<128>::kChannels);
  return {args.pass.chunk_count, static_cast<std::int32_t>(tiles + 1)};
}

void conv_gates(Stream stream, const ConvGatesArgs& args) {
  const RecurrentShape& shape = args.shape;
  check(shape.key_dim == 128 || shape.key_dim == 16, "conv_gates: key_dim is 128 or 16");
  check(shape.value_dim % 16 == 0 && shape.value_heads % 2 == 0,
        "conv_gates: value_dim is a multiple of 16 and value_heads of 2");
  check(args.ld_x % 4 == 0 && args.window_offset % 4 == 0,
        "conv_gates: ld_x and window_offset are multiples of 4");
  const Grid grid = conv_gates_grid(args);
  if (shape.key_dim == 128) return launch<ConvGates<128>>(grid, stream, args);
  launch<ConvGates<16>>(grid, stream, args);
}

}  // namespace cairn::kernels::cuda
