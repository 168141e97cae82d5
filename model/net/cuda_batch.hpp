// SPDX-License-Identifier: Apache-2.0
// A step's slices as the tables that the CUDA kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/recurrent.hpp"
#include "model/net/backend.hpp"
#include "model/net/cuda_staging.hpp"

namespace cairn::model {

/// What the launches of a step need to know of its batch. Device pointers.
struct StepTables {
  const std::int32_t* tokens = nullptr;     // [rows]
  const std::int32_t* sequence = nullptr;   // [rows], the slice: a row of block_tables
  const std::int32_t* positions = nullptr;  // [rows]; -1: padding
  std::int64_t rows = 0;
  kernels::cuda::Pass pass;
  const kernels::cuda::QueryTile* prefill_tiles = nullptr;  // slices of several rows
  std::int64_t prefill_tile_count = 0;
  const kernels::cuda::QueryTile* decode_tiles = nullptr;  // slices of one row
  std::int64_t decode_tile_count = 0;
  std::int32_t ranges = 1;  // of 512 keys that the longest context of a decode tile has, or more
  const std::int32_t* block_tables = nullptr;  // [slices, table_stride], in units of kDeviceUnit
  std::int64_t table_stride = 0;
  const std::int32_t* logits_rows = nullptr;  // [logits_count], ascending
  std::int64_t logits_count = 0;
  bool operator==(const StepTables&) const = default;
};

/// Most that a step may have.
struct BatchLimits {
  std::int32_t rows = 0;
  std::int32_t slices = 0;
  std::int32_t context = 0;  // positions of a sequence
  std::int32_t group = 1;    // query heads of a kv head
};

/// Ranges of 512 keys that `positions` positions lie in.
constexpr std::int32_t ranges_of(std::int32_t positions) {
  return static_cast<std::int32_t>(
      kernels::cuda::ceil_div(positions, static_cast<std::int64_t>(kernels::kAttentionRange)));
}

/// Collects a step on the host, in vectors that keep their memory. Not thread-safe.
class StepBatch {
 public:
  explicit StepBatch(const BatchLimits& limits);

  /// `slices` and what they point to stay until write(). `arena` is where blocks are counted from.
  void build(std::span<const StepSlice> slices, const std::byte* arena);

  std::int32_t slices() const { return static_cast<std::int32_t>(slices_.size()); }
  std::int32_t ranges() const { return ranges_; }  // of the longest context
  /// One token a slice, no saves, everyone's logits: a step that comes again and again.
  bool is_plain_decode() const;
  /// Fills a plain decode step up to so many slices and ranges: no row of another slice changes.
  void pad(std::int32_t slices, std::int32_t ranges);

  /// Bytes that write() fills; those of the largest step.
  std::size_t bytes() const;
  static std::size_t most_bytes(const BatchLimits& limits);

  /// Writes the tables to `staging` and returns them as they lie once copied to `device`. Where
  /// each lies depends on the numbers of slices, rows, ranges and saves alone.
  StepTables write(std::byte* staging, const std::byte* device) const;

 private:
  /// Of each table.
  struct Counts {
    std::int64_t rows, slices, saves, chunks, prefill_tiles, decode_tiles, logits_rows,
        table_stride;
  };
  struct Offsets;
  static Offsets offsets(const Counts& counts);
  Counts counts() const;
  void add_slice(const StepSlice& slice);

  std::int32_t group_;
  std::span<const StepSlice> source_;
  const std::byte* arena_ = nullptr;
  std::vector<std::int32_t> tokens_, sequence_, positions_, logits_rows_;
  std::vector<kernels::cuda::PassSlice> slices_;
  std::vector<kernels::cuda::PassSave> saves_;
  std::vector<kernels::cuda::PassChunk> chunks_;
  std::vector<kernels::cuda::QueryTile> prompts_;  // slices of several rows, before the cut
  std::vector<kernels::cuda::QueryTile> prefill_tiles_, decode_tiles_;
  std::int32_t ranges_ = 1;         // of the longest context
  std::int32_t decode_ranges_ = 1;  // of the longest among slices of one row
  std::int32_t longest_ = 0;        // slice, tokens
};

}  // namespace cairn::model
