// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/paged_kv.hpp"

namespace cairn::kernels::cuda {

/// Element is the type of queries and cache: Bf16, or F16 where there is no bf16 matrix unit.
template <class Element>
struct QkRopeArgs {
  const float* q = nullptr;        // [rows, ld] fp32; head h at h * q_head_stride
  std::int64_t q_head_stride = 0;  // 2 * head_dim when a head's gate follows its query
  const float* k = nullptr;        // [rows, ld] fp32; kv_heads * head_dim values each
  const float* v = nullptr;        // as k
  std::int64_t ld = 0;             // of q, k and v; it and q_head_stride are multiples of 4
  const float* q_norm = nullptr;   // [head_dim] fp32
  const float* k_norm = nullptr;   // [head_dim] fp32
  float eps = 0.0F;
  const float* cos = nullptr;  // [every position, rotary_dim / 2] fp32
  const float* sin = nullptr;
  std::int32_t rotary_dim = 0;              // 64 with head_dim 256, 8 with 32
  const std::int32_t* sequence = nullptr;   // [rows], a row of kv.tables
  const std::int32_t* positions = nullptr;  // [rows]; below 0: padding, nothing is written
  std::int64_t rows = 0;
  std::int32_t heads = 0;
  PagedKv<Element> kv;
  Element* q_out = nullptr;  // [rows, heads, head_dim]
};

template <class Element>
Grid qk_rope_grid(const QkRopeArgs<Element>& args);

/// Per head: q and k get their zero-centred RMS norm, then RoPE on the leading rotary_dim values,
/// pairs (i, i + rotary_dim / 2); q goes to q_out, k and v into their slots of the paged cache. The
/// values before rounding to Element have the bits of the CPU kernels norm_rope and kv_store. Rows
/// of several sequences may be mixed; a row's bits depend on the row alone. Device pointers,
/// 16-byte aligned, none overlapping; queued on `stream`. Throws InvariantError for dimensions or
/// strides it does not take, DeviceError when the launch is refused.
template <class Element>
void qk_rope(Stream stream, const QkRopeArgs<Element>& args);

}  // namespace cairn::kernels::cuda
