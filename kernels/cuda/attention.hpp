// SPDX-License-Identifier: Apache-2.0
// Causal attention over paged keys and values on tensor cores, in two fixed levels: tiles of 64
// keys inside ranges of 512, both at absolute positions, ranges joined in order. A query at
// position p uses ranges 0 .. p / 512, and its bits are the same from attention_prefill and
// attention_decode, whatever else is in the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/paged_kv.hpp"

namespace cairn::kernels::cuda {

/// Consecutive queries of one sequence that share each tile of keys. With the heads of a group they
/// fill the rows of a block: queries * group of them at most.
struct alignas(16) QueryTile {
  std::int32_t sequence = 0;  // row of kv.tables
  std::int32_t row = 0;       // of the first query, in q and y
  std::int32_t queries = 0;   // 0: padding, nothing is written
  std::int32_t position = 0;  // of the first query
};
inline constexpr std::int32_t kPrefillTileRows = 64;
inline constexpr std::int32_t kDecodeTileRows = 16;

/// Cuts `slice` into tiles of at most `tile_rows` rows. The cut reaches no bits. Blocks start in
/// the order of tiles, so put slices with the longest contexts first.
void append_query_tiles(const QueryTile& slice, std::int32_t group, std::int32_t tile_rows,
                        std::vector<QueryTile>& tiles);

/// Element is Bf16, or F16 on sm_75, which has no bf16 matrix unit: there keys, values and queries
/// are rounded to F16 and must stay below 65,520. Out is float or Bf16.
template <class Element, class Out>
struct AttentionArgs {
  PagedKv<Element> kv;               // head_dim 256 or 32; the queries' own keys are stored
  const Element* q = nullptr;        // [rows, kv_heads * group, head_dim]
  const QueryTile* tiles = nullptr;  // [tile_count]
  std::int64_t tile_count = 0;
  std::int32_t group = 1;  // query heads of a kv head, at most 16
  float scale = 0.0F;      // multiplies the score, head_dim^-0.5
  // When not null, the result is multiplied by sigmoid(gate), as sigmoid_gate would.
  const float* gate = nullptr;        // [rows, ld_gate] fp32; head h at h * gate_head_stride
  std::int64_t ld_gate = 0;           // it and gate_head_stride are multiples of 4
  std::int64_t gate_head_stride = 0;  // 2 * head_dim when a head's gate follows its query
  Out* y = nullptr;                   // [rows, kv_heads * group, head_dim]
};

template <class Element, class Out>
Grid attention_prefill_grid(const AttentionArgs<Element, Out>& args);

/// Tiles of up to kPrefillTileRows rows: one block walks all ranges of a tile for one kv head.
/// Device pointers, 16-byte aligned, none overlapping; queued on `stream`. Memory of keys and
/// values past the last query's position is never read. Keys that a row may not see are left out by
/// selection, their values multiplied by exactly 0: those stored before the last query of the tile
/// must be finite. Throws InvariantError for shapes it does not take, DeviceError when the launch
/// is refused.
template <class Element, class Out>
void attention_prefill(Stream stream, const AttentionArgs<Element, Out>& args);

template <class Element, class Out>
struct AttentionDecodeArgs : AttentionArgs<Element, Out> {
  std::int32_t max_queries = 1;  // of any tile; max_queries * group <= kDecodeTileRows
  std::int32_t ranges = 1;       // that the longest context has: last position / 512 + 1
  float* scratch = nullptr;      // [attention_scratch_floats(args)], 16-byte aligned
};

/// fp32 elements of AttentionDecodeArgs::scratch: 4 head_dim + 8 bytes a range and query head.
template <class Element, class Out>
std::int64_t attention_scratch_floats(const AttentionDecodeArgs<Element, Out>& args);

/// Blocks of the first launch: one a tile, kv head and range.
template <class Element, class Out>
Grid attention_ranges_grid(const AttentionDecodeArgs<Element, Out>& args);
/// Blocks of the second launch, which joins the ranges of each row.
template <class Element, class Out>
Grid attention_join_grid(const AttentionDecodeArgs<Element, Out>& args);

/// The same bits in two launches, for tiles of few queries over long contexts. Otherwise as
/// attention_prefill.
template <class Element, class Out>
void attention_decode(Stream stream, const AttentionDecodeArgs<Element, Out>& args);

}  // namespace cairn::kernels::cuda
