// SPDX-License-Identifier: Apache-2.0
// y = x W^T on tensor cores: the projections of every layer and the head. The exact default: the
// bits of a row are a function of that row and the weight alone, whatever else is in the batch.
//
// K is cut into segments, a number fixed by the weight's shape, so that one row fills the chip; the
// segments' sums are added in ascending order. Whether a block computes one segment or all of them,
// and how large its tile is, changes speed and no bit. docs/order.md has the order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// What a launcher multiplies by: [n, k], one row an output. 16-byte aligned.
struct Bf16Weight {
  const Bf16* w = nullptr;  // [n, k]; k a multiple of 8
};

/// Rounded to 8 bits: element (i, j) stands for bf16(q * scale of its row and group). A gemm has
/// the bits it would have with those values as a Bf16Weight. quantize_int8 makes both arrays.
struct Int8Weight {
  const std::int8_t* q = nullptr;  // [n, k], k a multiple of 16; 16 values of k as int8_slot says
  const Bf16* scales = nullptr;    // [ceil(k / group), n]; n (with swiglu n / 2) a multiple of 8
  std::int32_t group = 0;          // a multiple of 32
};

/// Where the j-th of 16 consecutive values of k stands in an Int8Weight: the four that one lane of
/// mma.m16n8k16 takes (2t, 2t + 1, 2t + 8, 2t + 9) are one word.
constexpr std::int64_t int8_slot(std::int64_t j) { return j % 8 / 2 * 4 + j / 8 * 2 + j % 2; }

/// Per row and group of k: scale = bf16(largest magnitude / 127), q = value / scale to nearest
/// even, within -127 .. 127. Host memory. Throws InvariantError for a group or k that Int8Weight
/// excludes.
void quantize_int8(const Bf16* w, std::int64_t n, std::int64_t k, std::int32_t group,
                   std::int8_t* q,  // [n, k] in slots
                   Bf16* scales);   // [ceil(k / group), n]

/// Thread blocks that one row should give: multiprocessors of an H200.
constexpr std::int64_t kGemmBlocks = 132;
/// Segments are whole steps of this depth; k is padded to them with zeros.
constexpr std::int64_t kGemmStep = 64;
constexpr std::int64_t kMaxGemmDepth = std::int64_t{1} << 20;
/// Columns of the tile for few rows.
constexpr std::int64_t kGemmColumns = 64;

/// Values of k in a segment; the last may have fewer. As long as one row still gives kGemmBlocks
/// blocks, where k has the steps for that.
constexpr std::int64_t gemm_segment_depth(std::int64_t n, std::int64_t k) {
  const std::int64_t wanted = ceil_div(kGemmBlocks, ceil_div(n, kGemmColumns));
  return kGemmStep * std::max<std::int64_t>(ceil_div(k, kGemmStep) / wanted, 1);
}
constexpr std::int64_t gemm_segments(std::int64_t n, std::int64_t k) {
  return ceil_div(k, gemm_segment_depth(n, k));
}

/// Rows that a step with `rows` is planned as: 16, 64, 256, 1024, then multiples of 1024.
constexpr std::int64_t gemm_bucket(std::int64_t rows) {
  for (const std::int64_t bucket : {16, 64, 256}) {
    if (rows <= bucket) return bucket;
  }
  return 1024 * ceil_div(rows, 1024);
}

/// Rows x columns of a block's tile.
enum class GemmTileSize : std::uint8_t {
  rows_16_columns_64,
  rows_64_columns_64,
  rows_128_columns_128
};

struct GemmPlan {
  GemmTileSize tile = GemmTileSize::rows_16_columns_64;
  bool split = false;  // a block a segment; the last one of a tile to finish adds them up
  bool operator==(const GemmPlan&) const = default;
};

/// The plan for the rows' bucket: the largest tile that fills the chip, split when none does.
GemmPlan gemm_plan(std::int64_t rows, std::int64_t n, std::int64_t k);

/// x: row tiles, y: column tiles, z: segments when split.
Grid gemm_grid(const GemmPlan& plan, std::int64_t rows, std::int64_t n, std::int64_t k);

/// Device memory that a launch works in. Launches that may overlap need one each.
struct GemmWorkspace {
  float* sums = nullptr;            // 16-byte aligned
  std::int32_t* arrived = nullptr;  // all zero before the first launch; left so
};
struct GemmWorkspaceSize {
  std::int64_t sums = 0;     // elements
  std::int64_t arrived = 0;  // elements
  bool operator==(const GemmWorkspaceSize&) const = default;
};
GemmWorkspaceSize gemm_workspace(const GemmPlan& plan, std::int64_t rows, std::int64_t n,
                                 std::int64_t k);

template <class Weight, class Out>
struct GemmArgs {
  const Bf16* x = nullptr;  // [rows, ldx]
  std::int64_t ldx = 0;     // a multiple of 8
  std::int64_t rows = 0;
  Weight weight;
  std::int64_t n = 0;       // a multiple of 4
  std::int64_t k = 0;       // at most kMaxGemmDepth
  Out* y = nullptr;         // [rows, ldy], float or Bf16 (rounded to nearest even)
  std::int64_t ldy = 0;     // a multiple of 4
  GemmWorkspace workspace;  // gemm_workspace of the plan; may be empty when it does not split
};

/// y[rows, n] = x[rows, k] W[n, k]^T. Device pointers, 16-byte aligned, none overlapping; queued on
/// `stream`. Throws InvariantError for a shape it does not take, DeviceError when the launch is
/// refused. On sm_75, which multiplies no bf16, the products are added one fma at a time, k
/// ascending: exact in the same sense and slow.
template <class Weight, class Out>
void gemm(Stream stream, const GemmArgs<Weight, Out>& args, const GemmPlan& plan);
template <class Weight, class Out>
void gemm(Stream stream, const GemmArgs<Weight, Out>& args) {
  gemm(stream, args, gemm_plan(args.rows, args.n, args.k));
}

/// y[rows, n / 2] = silu(x G^T) * (x U^T) where G is the first and U the second half of W's rows:
/// the bits of gemm to fp32 followed by swiglu, in one launch. n is a multiple of 8.
template <class Weight>
void gemm_swiglu(Stream stream, const GemmArgs<Weight, Bf16>& args, const GemmPlan& plan);
template <class Weight>
void gemm_swiglu(Stream stream, const GemmArgs<Weight, Bf16>& args) {
  gemm_swiglu(stream, args, gemm_plan(args.rows, args.n, args.k));
}

}  // namespace cairn::kernels::cuda
