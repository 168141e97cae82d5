// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norm.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {

template <class Out>
Grid add_rms_norm_grid(const AddRmsNormArgs<Out>& args) {
  return {args.rows};
}

template <class Out>
void add_rms_norm(Stream stream, const AddRmsNormArgs<Out>& args) {
  check(args.width > 0 && args.width % 4 == 0 && args.width <= kMaxNormWidth,
        "add_rms_norm: the width is a multiple of 4 up to 8192");
  const Grid grid = add_rms_norm_grid(args);
  const std::int64_t vectors = ceil_div(args.width, 4 * AddRmsNorm<Out, 1>::kThreads);
  if (vectors <= 1) return launch<AddRmsNorm<Out, 1>>(grid, stream, args);
  if (vectors <= 2) return launch<AddRmsNorm<Out, 2>>(grid, stream, args);
  if (vectors <= 4) return launch<AddRmsNorm<Out, 4>>(grid, stream, args);
  launch<AddRmsNorm<Out, 8>>(grid, stream, args);
}

template <class Out>
Grid gated_norm_grid(const GatedNormArgs<Out>& args) {
  const std::int64_t heads_a_block =
      args.head_dim == 128 ? GatedNorm<Out, 128>::kHeads : GatedNorm<Out, 16>::kHeads;
  return {ceil_div(args.tokens * args.heads, heads_a_block)};
}

template <class Out>
void gated_norm(Stream stream, const GatedNormArgs<Out>& args) {
  check(args.head_dim == 128 || args.head_dim == 16, "gated_norm: head_dim is 128 or 16");
  check(args.ld_z % 4 == 0, "gated_norm: ld_z is a multiple of 4");
  const Grid grid = gated_norm_grid(args);
  if (args.head_dim == 128) return launch<GatedNorm<Out, 128>>(grid, stream, args);
  launch<GatedNorm<Out, 16>>(grid, stream, args);
}

template Grid add_rms_norm_grid(const AddRmsNormArgs<float>&);
template Grid add_rms_norm_grid(const AddRmsNormArgs<Bf16>&);
template void add_rms_norm(Stream, const AddRmsNormArgs<float>&);
template void add_rms_norm(Stream, const AddRmsNormArgs<Bf16>&);
template Grid gated_norm_grid(const GatedNormArgs<float>&);
template Grid gated_norm_grid(const GatedNormArgs<Bf16>&);
template void gated_norm(Stream, const GatedNormArgs<float>&);
template void gated_norm(Stream, const GatedNormArgs<Bf16>&);

}  // namespace cairn::kernels::cuda
