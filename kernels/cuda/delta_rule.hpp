// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/recurrent.hpp"

namespace cairn::kernels::cuda {

struct DeltaRuleArgs {
  Pass pass;
  RecurrentShape shape;
  const float* qkv = nullptr;    // [rows, channels] fp32, as conv_gates leaves it
  const float* gates = nullptr;  // [rows, value_heads, 2] fp32: decay, beta
  // Of this layer's S [value_heads, key_dim, value_dim] in a state slot; fp32 elements, a multiple
  // of 4.
  std::int64_t state_offset = 0;
  float* o = nullptr;  // [rows, value_heads, value_dim] fp32
};

/// Columns of S that a lane holds: 2 while slices are few and long (more warps for each), 4
/// otherwise. No bit depends on it.
std::int32_t delta_rule_columns(const Pass& pass);

/// One block a slice, value head and 16 columns of S.
Grid delta_rule_grid(const DeltaRuleArgs& args);

/// The gated delta rule, per slice and value head, token by token:
///   S <- decay S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q
/// S is read once a slice and written once, and once more for each save, straight into its slot.
/// Device pointers, 16-byte aligned, none overlapping; queued on `stream`. Bits of o and S depend
/// on their sequence alone, and a pass may end and go on after any token. Throws InvariantError for
/// a shape that it does not take, DeviceError when the launch is refused.
void delta_rule(Stream stream, const DeltaRuleArgs& args);

}  // namespace cairn::kernels::cuda
