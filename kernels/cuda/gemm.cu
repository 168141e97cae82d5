// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm.hpp"

#include "base/check.hpp"
#include "kernels/cuda/gemm_launch.cuh"

namespace cairn::kernels::cuda {
namespace {

struct TileExtent {
  std::int64_t rows, columns;
};

TileExtent extent(GemmTileSize tile) {
  switch (tile) {
    case GemmTileSize::rows_16_columns_64:
      return {16, 64};
    case GemmTileSize::rows_64_columns_64:
      return {64, 64};
    case GemmTileSize::rows_128_columns_128:
      break;
  }
  return {128, 128};
}

std::int64_t tiles(GemmTileSize tile, std::int64_t rows, std::int64_t n) {
  return ceil_div(rows, extent(tile).rows) * ceil_div(n, extent(tile).columns);
}

}  // namespace

GemmPlan gemm_plan(std::int64_t rows, std::int64_t n, std::int64_t k) {
  const std::int64_t bucket = gemm_bucket(rows);
  GemmPlan plan;
  if (bucket > 16) plan.tile = GemmTileSize::rows_64_columns_64;
  if (bucket > 64 && tiles(GemmTileSize::rows_128_columns_128, bucket, n) >= kGemmBlocks) {
    plan.tile = GemmTileSize::rows_128_columns_128;
  }
  plan.split = gemm_segments(n, k) > 1 && tiles(plan.tile, bucket, n) < kGemmBlocks;
  return plan;
}

Grid gemm_grid(const GemmPlan& plan, std::int64_t rows, std::int64_t n, std::int64_t k) {
  const TileExtent tile = extent(plan.tile);
  return {ceil_div(rows, tile.rows), static_cast<std::int32_t>(ceil_div(n, tile.columns)),
          static_cast<std::int32_t>(plan.split ? gemm_segments(n, k) : 1)};
}

GemmWorkspaceSize gemm_workspace(const GemmPlan& plan, std::int64_t rows, std::int64_t n,
                                 std::int64_t k) {
  if (!plan.split) return {};
  return {gemm_segments(n, k) * rows * n, tiles(plan.tile, rows, n)};
}

template void gemm(Stream, const GemmArgs<Bf16Weight, float>&, const GemmPlan&);
template void gemm(Stream, const GemmArgs<Bf16Weight, Bf16>&, const GemmPlan&);
template void gemm_swiglu(Stream, const GemmArgs<Bf16Weight, Bf16>&, const GemmPlan&);

}  // namespace cairn::kernels::cuda
