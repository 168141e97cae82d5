// SPDX-License-Identifier: Apache-2.0
// Gated full attention over paged keys and values. Projections in `wide`:
// [per head: query, gate | keys | values].
#include <algorithm>
#include <cmath>

#include "model/net/cpu_backend.hpp"

namespace cairn::model {
namespace {

// A lone row over at least this many ranges of 512 keys is worth splitting by ranges.
constexpr std::int64_t kMinRanges = 2;

// Calls fn(part, row of the part) for the rows [begin, end) of a tile.
template <class F>
void for_rows(const Tile& tile, std::int64_t begin, std::int64_t end, F&& fn) {
  for (const TilePart& part : tile.parts) {
    const std::int64_t last = std::min<std::int64_t>(end, part.row + part.rows);
    for (std::int64_t r = std::max<std::int64_t>(begin, part.row); r < last; ++r) {
      fn(part, r - part.row);
    }
  }
}

}  // namespace

void CpuBackend::store_keys(const LayerWeights& layer, std::size_t offset, const TilePart& part,
                            std::int64_t row) {
  const ModelConfig& c = config();
  const std::int64_t pairs = c.rotary_dim / 2;
  const std::int64_t key_column = 2 * static_cast<std::int64_t>(c.num_heads) * c.head_dim;
  const std::int64_t value_column =
      key_column + static_cast<std::int64_t>(c.num_kv_heads) * c.head_dim;
  const std::int64_t tile_row = part.row + row;
  float* const key = wide_ + tile_row * ld_wide_ + key_column;
  ops_.norm_rope(key, c.head_dim, c.num_kv_heads, c.head_dim, layer.key_norm.data(), c.rms_norm_eps,
                 cos_ + tile_row * pairs, sin_ + tile_row * pairs, c.rotary_dim, key, c.head_dim);
  const StepSlice& slice = slices_[static_cast<std::size_t>(part.slice)];
  const std::int64_t position = part.position + row;
  std::byte* const block = slice.kv_blocks[static_cast<std::size_t>(position / kBlockTokens)];
  ops_.kv_store(kv_, block + offset, static_cast<std::int32_t>(position % kBlockTokens), key,
                wide_ + tile_row * ld_wide_ + value_column);
}

void CpuBackend::rotate_queries(const LayerWeights& layer, std::int64_t tile_row) {
  const ModelConfig& c = config();
  const std::int64_t pairs = c.rotary_dim / 2;
  ops_.norm_rope(wide_ + tile_row * ld_wide_, 2 * static_cast<std::int64_t>(c.head_dim),
                 c.num_heads, c.head_dim, layer.query_norm.data(), c.rms_norm_eps,
                 cos_ + tile_row * pairs, sin_ + tile_row * pairs, c.rotary_dim,
                 query_ + tile_row * ld_mixed_, c.head_dim);
}

void CpuBackend::gate_output(std::int64_t tile_row, std::int64_t kv_head) {
  const ModelConfig& c = config();
  const std::int32_t group = c.num_heads / c.num_kv_heads;
  const std::int64_t column = kv_head * group * c.head_dim;
  ops_.sigmoid_gate(mixed_ + tile_row * ld_mixed_ + column,
                    wide_ + tile_row * ld_wide_ + 2 * column + c.head_dim,
                    2 * static_cast<std::int64_t>(c.head_dim), group, c.head_dim);
}

kernels::AttentionArgs CpuBackend::attention_args(std::size_t offset, const TilePart& part,
                                                  std::int32_t row, std::int32_t rows,
                                                  std::int32_t kv_head) const {
  const ModelConfig& c = config();
  const std::int32_t group = c.num_heads / c.num_kv_heads;
  const std::int64_t column = static_cast<std::int64_t>(kv_head) * group * c.head_dim;
  kernels::AttentionArgs args;
  args.layout = kv_;
  args.kv_head = kv_head;
  args.group = group;
  args.rows = rows;
  args.position = part.position + row;
  args.blocks = slices_[static_cast<std::size_t>(part.slice)].kv_blocks.data();
  args.layer_offset = offset;
  args.activations = activations_;
  args.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  args.q = query_ + (part.row + row) * ld_mixed_ + column;
  args.o = mixed_ + (part.row + row) * ld_mixed_ + column;
  args.ldq = args.ldo = ld_mixed_;
  return args;
}

void CpuBackend::attend(std::size_t offset, const Tile& tile) {
  struct Chunk {
    const TilePart* part;
    std::int32_t row, rows, kv_head;
  };
  std::vector<Chunk> chunks;
  for (const TilePart& part : tile.parts) {
    for (std::int32_t row = 0; row < part.rows; row += kAttentionRows) {
      for (std::int32_t head = 0; head < config().num_kv_heads; ++head) {
        chunks.push_back({&part, row, std::min(kAttentionRows, part.rows - row), head});
      }
    }
  }
  pool_.run(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t i) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
    kernels::AttentionArgs args =
        attention_args(offset, *chunk.part, chunk.row, chunk.rows, chunk.kv_head);
    const ScratchSlots::Lease scratch = attention_scratch_.take();
    args.scratch = scratch.data();
    ops_.attention(args);
    for (std::int32_t r = 0; r < chunk.rows; ++r) {
      gate_output(chunk.part->row + chunk.row + r, chunk.kv_head);
    }
  });
}

// For a few decoding rows over long contexts: the ranges of one row are spread over the threads,
// which gives the bits of attend().
void CpuBackend::attend_by_ranges(std::size_t offset, const Tile& tile) {
  const ModelConfig& c = config();
  struct Job {
    const TilePart* part;
    std::int32_t kv_head;
    std::int64_t ranges, first;  // first: ranges of the jobs before it
  };
  std::vector<Job> jobs;
  std::int64_t total = 0;
  for (const TilePart& part : tile.parts) {
    for (std::int32_t head = 0; head < c.num_kv_heads; ++head) {
      const std::int64_t ranges = part.position / kernels::kAttentionRange + 1;
      jobs.push_back({&part, head, ranges, total});
      total += ranges;
    }
  }
  const std::int64_t range_size =
      (c.num_heads / c.num_kv_heads) * kernels::attention_partial_size(c.head_dim);
  const auto bytes = static_cast<std::size_t>(total * range_size) * sizeof(float);
  if (partials_.size() < bytes) partials_ = kernels::HugeBuffer(2 * bytes);
  auto* const partials = reinterpret_cast<float*>(partials_.data());
  pool_.run(total, [&](std::int64_t i) {
    const auto after = std::upper_bound(jobs.begin(), jobs.end(), i,
                                        [](std::int64_t v, const Job& j) { return v < j.first; });
    const Job& job = *(after - 1);
    kernels::AttentionArgs args = attention_args(offset, *job.part, 0, 1, job.kv_head);
    const ScratchSlots::Lease scratch = attention_scratch_.take();
    args.scratch = scratch.data();
    ops_.attention_range(args, i - job.first, partials + i * range_size);
  });
  pool_.run(static_cast<std::int64_t>(jobs.size()), [&](std::int64_t i) {
    const Job& job = jobs[static_cast<std::size_t>(i)];
    ops_.attention_combine(attention_args(offset, *job.part, 0, 1, job.kv_head), job.ranges,
                           partials + job.first * range_size);
    gate_output(job.part->row, job.kv_head);
  });
}

void CpuBackend::run_attention(const LayerWeights& layer, std::int32_t index, Tile& tile,
                               bool last) {
  const ModelConfig& c = config();
  const std::size_t offset = static_cast<std::size_t>(index) * kv_.layer_bytes();
  const std::int64_t query_columns = 2 * static_cast<std::int64_t>(c.num_heads) * c.head_dim;
  const std::int64_t query_panels =
      (query_columns + kernels::kPanelColumns - 1) / kernels::kPanelColumns;
  const auto unread = [](const TilePart& part) { return part.read_from > 0; };
  const bool keys_first = last && std::any_of(tile.parts.begin(), tile.parts.end(), unread);
  if (keys_first) {
    // Rows whose logits nobody reads owe the future their keys and values, nothing else.
    gemm(layer.in, query_columns / kernels::kPanelColumns, layer.in.panels(), normed_, ld_hidden_,
         tile.rows, wide_, ld_wide_, Made::rounded);
    split(tile.rows, kernels::kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for_rows(tile, begin, end, [&](const TilePart& part, std::int64_t row) {
        store_keys(layer, offset, part, row);
      });
    });
    keep_read_rows(tile);
    if (tile.rows == 0) return;
    // Rows moved: what was made for them is elsewhere.
    gemm(layer.in, 0, query_panels, normed_, ld_hidden_, tile.rows, wide_, ld_wide_, Made::plain);
  } else {
    gemm(layer.in, normed_, ld_hidden_, tile.rows, wide_, ld_wide_, Made::rounded);
  }
  split(tile.rows, kernels::kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for_rows(tile, begin, end, [&](const TilePart& part, std::int64_t row) {
      if (!keys_first) store_keys(layer, offset, part, row);
      rotate_queries(layer, part.row + row);
    });
  });

  bool long_single_rows = tile.rows == static_cast<std::int32_t>(tile.parts.size()) &&
                          tile.rows * c.num_kv_heads < 4 * pool_.threads();
  std::int64_t longest = 0;
  for (const TilePart& part : tile.parts) longest = std::max<std::int64_t>(longest, part.position);
  long_single_rows = long_single_rows && longest / kernels::kAttentionRange + 1 >= kMinRanges;
  if (long_single_rows) {
    attend_by_ranges(offset, tile);
  } else {
    attend(offset, tile);
  }
}

}  // namespace cairn::model
