// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/recurrent.hpp"

namespace cairn::kernels::cuda {

/// From a recurrent layer's projections to what its delta rule takes.
struct ConvGatesArgs {
  Pass pass;
  RecurrentShape shape;
  const float* x = nullptr;        // [rows, ld_x] fp32: q | k | v
  const float* a = nullptr;        // [rows, ld_x] fp32, value_heads each; may lie in the rows of x
  const float* b = nullptr;        // as a
  std::int64_t ld_x = 0;           // a multiple of 4
  const float* weight = nullptr;   // [4, channels] fp32; tap 3 multiplies the newest token
  const float* a_log = nullptr;    // [value_heads] fp32
  const float* dt_bias = nullptr;  // [value_heads] fp32
  // Of this layer's window [3, channels] in a state slot, oldest first; fp32 elements, a multiple
  // of 4.
  std::int64_t window_offset = 0;
  float* y = nullptr;      // [rows, channels] fp32, not x
  float* gates = nullptr;  // [rows, value_heads, 2] fp32: decay, beta
};

Grid conv_gates_grid(const ConvGatesArgs& args);

/// Per slice: causal depthwise convolution over 4 tokens and SiLU; then per key head q / |q| *
/// key_dim^-0.5 and k / |k|; beside it decay = exp(-exp(a_log) softplus(a + dt_bias)) and beta =
/// sigmoid(b). The window is advanced in every slice's state and written to its saves. Device
/// pointers, 16-byte aligned (a and b: 8), none overlapping; queued on `stream`. A row's bits
/// depend on its sequence alone. Throws InvariantError for a shape that it does not take,
/// DeviceError when the launch is refused.
void conv_gates(Stream stream, const ConvGatesArgs& args);

}  // namespace cairn::kernels::cuda
