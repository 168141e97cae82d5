// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// Out is float or Bf16 (rounded to nearest even), here and below.
template <class Out>
struct AddRmsNormArgs {
  float* x = nullptr;             // [rows, width] fp32, the residual stream: x += update
  const float* update = nullptr;  // [rows, width] fp32, or null: x stays as it is
  const float* w = nullptr;       // [width] fp32
  float eps = 0.0F;
  std::int64_t rows = 0;
  std::int64_t width = 0;  // a multiple of 4, at most kMaxNormWidth
  Out* y = nullptr;        // [rows, width]
  // When not null, row r of y is made of row from[r] of x and update, and x stays as it is.
  const std::int32_t* from = nullptr;  // [rows]
};

constexpr std::int64_t kMaxNormWidth = 8192;

template <class Out>
Grid add_rms_norm_grid(const AddRmsNormArgs<Out>& args);

/// x += update, then the zero-centred RMS norm y = x / sqrt(mean(x^2) + eps) * (1 + w). Device
/// pointers, 16-byte aligned, none overlapping; queued on `stream`. A row's bits depend on the row
/// and the width alone. Throws InvariantError for a width it does not take, DeviceError when the
/// launch is refused.
template <class Out>
void add_rms_norm(Stream stream, const AddRmsNormArgs<Out>& args);

template <class Out>
struct GatedNormArgs {
  const float* o = nullptr;  // [tokens, heads, head_dim] fp32
  const float* z = nullptr;  // [tokens, ld_z] fp32; heads * head_dim values each
  std::int64_t ld_z = 0;     // a multiple of 4
  const float* w = nullptr;  // [head_dim] fp32, plain (not 1 + w)
  float eps = 0.0F;
  std::int64_t tokens = 0;
  std::int32_t heads = 0;
  std::int32_t head_dim = 0;  // 128 or 16
  Out* y = nullptr;           // [tokens, heads, head_dim]
};

template <class Out>
Grid gated_norm_grid(const GatedNormArgs<Out>& args);

/// Per head: y = o / sqrt(mean(o^2) + eps) * w * silu(z). Otherwise as add_rms_norm; throws
/// InvariantError for a head_dim or stride it does not take.
template <class Out>
void gated_norm(Stream stream, const GatedNormArgs<Out>& args);

}  // namespace cairn::kernels::cuda
