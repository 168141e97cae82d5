// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// Out is float or Bf16 (rounded to nearest even), here and below.
template <class Out>
struct SigmoidGateArgs {
  const float* x = nullptr;           // [tokens, heads, head_dim] fp32
  const float* gate = nullptr;        // [tokens, ld_gate] fp32; head h at h * gate_head_stride
  std::int64_t ld_gate = 0;           // a multiple of 4
  std::int64_t gate_head_stride = 0;  // 2 * head_dim when a head's gate follows its query
  std::int64_t tokens = 0;
  std::int32_t heads = 0;
  std::int32_t head_dim = 0;  // a multiple of 4
  Out* y = nullptr;           // [tokens, heads, head_dim]
};

template <class Out>
Grid sigmoid_gate_grid(const SigmoidGateArgs<Out>& args);

/// y = x * sigmoid(gate): the output gate of attention. Device pointers, 16-byte aligned, none
/// overlapping; queued on `stream`. Throws InvariantError for a stride or dimension it does not
/// take, DeviceError when the launch is refused.
template <class Out>
void sigmoid_gate(Stream stream, const SigmoidGateArgs<Out>& args);

template <class Out>
struct SwigluArgs {
  const float* gate = nullptr;  // [rows, ld_gate] fp32, n values each
  std::int64_t ld_gate = 0;     // a multiple of 4
  const float* up = nullptr;    // [rows, ld_up] fp32, n values each
  std::int64_t ld_up = 0;       // a multiple of 4
  std::int64_t rows = 0;
  std::int64_t n = 0;  // a multiple of 4
  Out* y = nullptr;    // [rows, n]
};

template <class Out>
Grid swiglu_grid(const SwigluArgs<Out>& args);

/// y = silu(gate) * up. Otherwise as sigmoid_gate.
template <class Out>
void swiglu(Stream stream, const SwigluArgs<Out>& args);

}  // namespace cairn::kernels::cuda
