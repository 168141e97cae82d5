// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/rope.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {

template <class Element>
Grid qk_rope_grid(const QkRopeArgs<Element>& args) {
  const std::int64_t heads = args.heads + 2 * static_cast<std::int64_t>(args.kv.kv_heads);
  return {ceil_div(args.rows * heads, QkRope<Element, 256, 64>::kHeads)};
}

template <class Element>
void qk_rope(Stream stream, const QkRopeArgs<Element>& args) {
  const bool large = args.kv.head_dim == 256 && args.rotary_dim == 64;
  const bool small = args.kv.head_dim == 32 && args.rotary_dim == 8;
  check(large || small, "qk_rope: head_dim and rotary_dim are 256 and 64, or 32 and 8");
  check(args.ld % 4 == 0 && args.q_head_stride % 4 == 0, "qk_rope: strides are multiples of 4");
  check(args.kv.aligned(), "qk_rope: blocks and layers are multiples of 16 bytes");
  const Grid grid = qk_rope_grid(args);
  if (large) return launch<QkRope<Element, 256, 64>>(grid, stream, args);
  launch<QkRope<Element, 32, 8>>(grid, stream, args);
}

template Grid qk_rope_grid(const QkRopeArgs<Bf16>&);
template Grid qk_rope_grid(const QkRopeArgs<F16>&);
template void qk_rope(Stream, const QkRopeArgs<Bf16>&);
template void qk_rope(Stream, const QkRopeArgs<F16>&);

}  // namespace cairn::kernels::cuda
