// SPDX-License-Identifier: Apache-2.0
// The launchers of gemm.hpp for one form of weight; a file a form instantiates them.
#pragma once

#include "base/check.hpp"
#include "kernels/cuda/gemm.cuh"

namespace cairn::kernels::cuda {
namespace detail {

inline void check_weight(const Bf16Weight&, std::int64_t, std::int64_t k) {
  check(k % 8 == 0, "gemm: k is a multiple of 8");
}
inline void check_weight(const Int8Weight& weight, std::int64_t columns, std::int64_t k) {
  check(weight.group > 0 && weight.group % 32 == 0, "gemm: an int8 group is a multiple of 32");
  check(k % 16 == 0 && columns % 8 == 0,
        "gemm: with int8 weights k is a multiple of 16 and n of 8 (16 with swiglu)");
}

template <bool kSwiglu, class Weight, class Out>
void launch_gemm(Stream stream, const GemmArgs<Weight, Out>& args, const GemmPlan& plan) {
  check(args.n % (kSwiglu ? 8 : 4) == 0, "gemm: n is a multiple of 4 (8 with swiglu)");
  check(args.k > 0 && args.k <= kMaxGemmDepth, "gemm: k is 1 to 2^20");
  check(args.ldx % 8 == 0 && args.ldy % 4 == 0,
        "gemm: strides are a multiple of 8 for x and of 4 for y");
  check_weight(args.weight, kSwiglu ? args.n / 2 : args.n, args.k);
  check(!plan.split || (args.workspace.sums != nullptr && args.workspace.arrived != nullptr),
        "gemm: a split plan needs a workspace");
  const Grid grid = gemm_grid(plan, args.rows, args.n, args.k);
  GemmLaunch<Weight, Out> all;
  all.args = args;
  all.steps = static_cast<std::int32_t>(ceil_div(args.k, kGemmStep));
  all.segment_steps = static_cast<std::int32_t>(gemm_segment_depth(args.n, args.k) / kGemmStep);
  all.segments = static_cast<std::int32_t>(gemm_segments(args.n, args.k));
  all.split = plan.split;
  switch (plan.tile) {
    case GemmTileSize::rows_16_columns_64:
      return launch<Gemm<Weight, Out, kSwiglu, GemmTile16>>(grid, stream, all);
    case GemmTileSize::rows_64_columns_64:
      return launch<Gemm<Weight, Out, kSwiglu, GemmTile64>>(grid, stream, all);
    case GemmTileSize::rows_128_columns_128:
      return launch<Gemm<Weight, Out, kSwiglu, GemmTile128>>(grid, stream, all);
  }
}

}  // namespace detail

template <class Weight, class Out>
void gemm(Stream stream, const GemmArgs<Weight, Out>& args, const GemmPlan& plan) {
  detail::launch_gemm<false>(stream, args, plan);
}

template <class Weight>
void gemm_swiglu(Stream stream, const GemmArgs<Weight, Bf16>& args, const GemmPlan& plan) {
  detail::launch_gemm<true>(stream, args, plan);
}

}  // namespace cairn::kernels::cuda
