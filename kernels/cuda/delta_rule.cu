// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/delta_rule.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {
namespace {

template <int kKeyDim>
void launch_columns(Stream stream, const DeltaRuleArgs& args) {
  const Grid grid = delta_rule_grid(args);
  if (delta_rule_columns(args.pass) == 2) {
    return launch<DeltaRule<kKeyDim, 2>>(grid, stream, args);
  }
  launch<DeltaRule<kKeyDim, 4>>(grid, stream, args);
}

}  // namespace

std::int32_t delta_rule_columns(const Pass& pass) {
  // A few tokens are bound by the state's bytes, four long slices fill the chip with one warp a
  // block.
  constexpr std::int64_t kShort = 4;
  constexpr std::int64_t kManySlices = 4;
  return pass.longest > kShort && pass.rows < kManySlices * pass.longest ? 2 : 4;
}

Grid delta_rule_grid(const DeltaRuleArgs& args) {
  return {args.shape.value_dim / kDeltaTile, args.shape.value_heads, args.pass.slice_count};
}

void delta_rule(Stream stream, const DeltaRuleArgs& args) {
  const RecurrentShape& shape = args.shape;
  check(shape.key_dim == 128 || shape.key_dim == 16, "delta_rule: key_dim is 128 or 16");
  check(shape.value_dim % kDeltaTile == 0, "delta_rule: value_dim is a multiple of 16");
  check(shape.key_heads > 0 && shape.value_heads % shape.key_heads == 0,
        "delta_rule: value_heads is a multiple of key_heads");
  check(args.state_offset % 4 == 0, "delta_rule: state_offset is a multiple of 4");
  if (shape.key_dim == 128) return launch_columns<128>(stream, args);
  launch_columns<16>(stream, args);
}

}  // namespace cairn::kernels::cuda
