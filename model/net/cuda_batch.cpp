// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_batch.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace cairn::model {
namespace {

using kernels::cuda::append_chunks;
using kernels::cuda::append_query_tiles;
using kernels::cuda::kChunkTokens;
using kernels::cuda::kPrefillTileRows;
using kernels::cuda::PassChunk;
using kernels::cuda::PassSave;
using kernels::cuda::PassSlice;
using kernels::cuda::QueryTile;

constexpr std::int64_t kBlocksOfRange = kernels::kAttentionRange / kBlockTokens;
constexpr std::size_t kTableAlignment = 16;

// A slice's last tile or chunk may be short.
std::int64_t most_pieces(const BatchLimits& limits, std::int64_t piece) {
  return limits.rows / piece + limits.slices;
}

template <class T>
void put(std::byte* staging, std::size_t at, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(staging + at, values.data(), values.size() * sizeof(T));
}

}  // namespace

struct StepBatch::Offsets {
  std::size_t tokens, sequence, positions, logits_rows, slices, saves, chunks, prefill_tiles,
      decode_tiles, block_tables, end;
};

StepBatch::Offsets StepBatch::offsets(const Counts& c) {
  std::size_t end = 0;
  const auto take = [&](std::int64_t count, std::size_t element) {
    const std::size_t at = end;
    end += (static_cast<std::size_t>(count) * element + kTableAlignment - 1) / kTableAlignment *
           kTableAlignment;
    return at;
  };
  Offsets o;
  o.tokens = take(c.rows, sizeof(std::int32_t));
  o.sequence = take(c.rows, sizeof(std::int32_t));
  o.positions = take(c.rows, sizeof(std::int32_t));
  o.logits_rows = take(c.logits_rows, sizeof(std::int32_t));
  o.slices = take(c.slices, sizeof(PassSlice));
  o.saves = take(c.saves, sizeof(PassSave));
  o.chunks = take(c.chunks, sizeof(PassChunk));
  o.prefill_tiles = take(c.prefill_tiles, sizeof(QueryTile));
  o.decode_tiles = take(c.decode_tiles, sizeof(QueryTile));
  o.block_tables = take(c.slices * c.table_stride, sizeof(std::int32_t));
  o.end = end;
  return o;
}

StepBatch::Counts StepBatch::counts() const {
  const auto size = [](const auto& v) { return static_cast<std::int64_t>(v.size()); };
  return {size(tokens_),        size(slices_),       size(saves_),       size(chunks_),
          size(prefill_tiles_), size(decode_tiles_), size(logits_rows_), ranges_ * kBlocksOfRange};
}

std::size_t StepBatch::bytes() const { return offsets(counts()).end; }

std::size_t StepBatch::most_bytes(const BatchLimits& limits) {
  return offsets({limits.rows, limits.slices, limits.rows, most_pieces(limits, kChunkTokens),
                  most_pieces(limits, kPrefillTileRows / limits.group), limits.slices, limits.rows,
                  ranges_of(limits.context) * kBlocksOfRange})
      .end;
}

StepBatch::StepBatch(const BatchLimits& limits) : group_(limits.group) {
  const auto rows = static_cast<std::size_t>(limits.rows);
  const auto slices = static_cast<std::size_t>(limits.slices);
  for (std::vector<std::int32_t>* v : {&tokens_, &sequence_, &positions_, &logits_rows_}) {
    v->reserve(rows);
  }
  slices_.reserve(slices);
  saves_.reserve(rows);
  chunks_.reserve(static_cast<std::size_t>(most_pieces(limits, kChunkTokens)));
  prompts_.reserve(slices);
  prefill_tiles_.reserve(
      static_cast<std::size_t>(most_pieces(limits, kPrefillTileRows / limits.group)));
  decode_tiles_.reserve(slices);
}

void StepBatch::build(std::span<const StepSlice> slices, const std::byte* arena) {
  source_ = slices;
  arena_ = arena;
  for (std::vector<std::int32_t>* v : {&tokens_, &sequence_, &positions_, &logits_rows_}) {
    v->clear();
  }
  slices_.clear();
  saves_.clear();
  chunks_.clear();
  prompts_.clear();
  prefill_tiles_.clear();
  decode_tiles_.clear();
  ranges_ = decode_ranges_ = 1;
  longest_ = 0;
  for (const StepSlice& slice : slices) add_slice(slice);
  std::stable_sort(prompts_.begin(), prompts_.end(), [](const QueryTile& a, const QueryTile& b) {
    return a.position + a.queries > b.position + b.queries;  // the most work first
  });
  for (const QueryTile& prompt : prompts_) {
    append_query_tiles(prompt, group_, kPrefillTileRows, prefill_tiles_);
  }
}

void StepBatch::add_slice(const StepSlice& slice) {
  const auto index = static_cast<std::int32_t>(slices_.size());
  const auto row = static_cast<std::int32_t>(tokens_.size());
  const auto count = static_cast<std::int32_t>(slice.tokens.size());
  tokens_.insert(tokens_.end(), slice.tokens.begin(), slice.tokens.end());
  for (std::int32_t i = 0; i < count; ++i) {
    sequence_.push_back(index);
    positions_.push_back(slice.position + i);
    if (slice.logits_from >= 0 && i >= slice.logits_from) logits_rows_.push_back(row + i);
  }
  slices_.push_back({row, reinterpret_cast<float*>(slice.state), count,
                     static_cast<std::int32_t>(saves_.size()),
                     static_cast<std::int32_t>(slice.saves.size())});
  for (const SavePoint& save : slice.saves) {
    saves_.push_back({reinterpret_cast<float*>(save.state), save.position - slice.position});
  }
  append_chunks(index, count, chunks_);
  (count == 1 ? decode_tiles_ : prompts_).push_back({index, row, count, slice.position});
  const std::int32_t ranges = ranges_of(slice.position + count);
  ranges_ = std::max(ranges_, ranges);
  if (count == 1) decode_ranges_ = std::max(decode_ranges_, ranges);
  longest_ = std::max(longest_, count);
}

bool StepBatch::is_plain_decode() const {
  return !slices_.empty() && longest_ == 1 && saves_.empty() &&
         logits_rows_.size() == slices_.size();
}

void StepBatch::pad(std::int32_t slices, std::int32_t ranges) {
  check(is_plain_decode() && slices >= this->slices() && ranges >= ranges_,
        "only a plain decode step is filled up");
  for (std::int32_t index = this->slices(); index < slices; ++index) {
    tokens_.push_back(0);
    sequence_.push_back(0);
    positions_.push_back(-1);
    logits_rows_.push_back(0);
    slices_.push_back({});
    chunks_.push_back({index, 0});
    decode_tiles_.push_back({});
  }
  ranges_ = decode_ranges_ = ranges;
}

StepTables StepBatch::write(std::byte* staging, const std::byte* device) const {
  const Counts c = counts();
  const Offsets at = offsets(c);
  put(staging, at.tokens, tokens_);
  put(staging, at.sequence, sequence_);
  put(staging, at.positions, positions_);
  put(staging, at.logits_rows, logits_rows_);
  put(staging, at.slices, slices_);
  put(staging, at.saves, saves_);
  put(staging, at.chunks, chunks_);
  put(staging, at.prefill_tiles, prefill_tiles_);
  put(staging, at.decode_tiles, decode_tiles_);
  auto* table = reinterpret_cast<std::int32_t*>(staging + at.block_tables);
  for (const StepSlice& slice : source_) {
    const std::int64_t end = slice.position + static_cast<std::int64_t>(slice.tokens.size());
    const auto blocks = static_cast<std::size_t>(kernels::cuda::ceil_div(end, kBlockTokens));
    for (std::size_t b = 0; b < blocks; ++b) {
      table[b] = static_cast<std::int32_t>((slice.kv_blocks[b] - arena_) /
                                           static_cast<std::ptrdiff_t>(kDeviceUnit));
    }
    table += c.table_stride;
  }
  StepTables t;
  t.tokens = reinterpret_cast<const std::int32_t*>(device + at.tokens);
  t.sequence = reinterpret_cast<const std::int32_t*>(device + at.sequence);
  t.positions = reinterpret_cast<const std::int32_t*>(device + at.positions);
  t.rows = c.rows;
  t.pass.slices = reinterpret_cast<const PassSlice*>(device + at.slices);
  t.pass.saves = reinterpret_cast<const PassSave*>(device + at.saves);
  t.pass.chunks = reinterpret_cast<const PassChunk*>(device + at.chunks);
  t.pass.slice_count = static_cast<std::int32_t>(c.slices);
  t.pass.chunk_count = static_cast<std::int32_t>(c.chunks);
  t.pass.rows = c.rows;
  t.pass.longest = longest_;
  t.prefill_tiles = reinterpret_cast<const QueryTile*>(device + at.prefill_tiles);
  t.prefill_tile_count = c.prefill_tiles;
  t.decode_tiles = reinterpret_cast<const QueryTile*>(device + at.decode_tiles);
  t.decode_tile_count = c.decode_tiles;
  t.ranges = decode_ranges_;
  t.block_tables = reinterpret_cast<const std::int32_t*>(device + at.block_tables);
  t.table_stride = c.table_stride;
  t.logits_rows = reinterpret_cast<const std::int32_t*>(device + at.logits_rows);
  t.logits_count = c.logits_rows;
  return t;
}

}  // namespace cairn::model
