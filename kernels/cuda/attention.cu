// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention.cuh"

#include <algorithm>

#include "base/check.hpp"

namespace cairn::kernels::cuda {
namespace {

template <class Element, class Out>
void check_shapes(const AttentionArgs<Element, Out>& args) {
  check(args.kv.head_dim == 256 || args.kv.head_dim == 32, "attention: head_dim is 256 or 32");
  check(args.group >= 1 && args.group <= kDecodeTileRows,
        "attention: 1 to 16 query heads share a kv head");
  check(args.kv.aligned(), "attention: blocks and layers are multiples of 16 bytes");
  check(args.gate == nullptr || (args.ld_gate % 4 == 0 && args.gate_head_stride % 4 == 0),
        "attention: strides of the gate are multiples of 4");
}

}  // namespace

void append_query_tiles(const QueryTile& slice, std::int32_t group, std::int32_t tile_rows,
                        std::vector<QueryTile>& tiles) {
  check(group >= 1 && group <= tile_rows,
        "attention: a tile holds the heads of one query at least");
  const std::int32_t most = tile_rows / group;
  for (std::int32_t done = 0; done < slice.queries; done += most) {
    tiles.push_back({slice.sequence, slice.row + done, std::min(most, slice.queries - done),
                     slice.position + done});
  }
}

template <class Element, class Out>
Grid attention_prefill_grid(const AttentionArgs<Element, Out>& args) {
  return {args.tile_count, args.kv.kv_heads};
}

template <class Element, class Out>
void attention_prefill(Stream stream, const AttentionArgs<Element, Out>& args) {
  check_shapes(args);
  const Grid grid = attention_prefill_grid(args);
  if (args.kv.head_dim == 256) {
    return launch<AttentionPrefill<Element, Out, 256>>(grid, stream, args);
  }
  launch<AttentionPrefill<Element, Out, 32>>(grid, stream, args);
}

template <class Element, class Out>
std::int64_t attention_scratch_floats(const AttentionDecodeArgs<Element, Out>& args) {
  const std::int64_t parts =
      args.tile_count * args.kv.kv_heads * args.max_queries * args.group * args.ranges;
  return parts * (args.kv.head_dim + 2);
}

template <class Element, class Out>
Grid attention_ranges_grid(const AttentionDecodeArgs<Element, Out>& args) {
  return {args.tile_count, args.kv.kv_heads, args.ranges};
}

template <class Element, class Out>
Grid attention_join_grid(const AttentionDecodeArgs<Element, Out>& args) {
  const std::int64_t rows = static_cast<std::int64_t>(args.max_queries) * args.group;
  const std::int64_t rows_a_block = args.kv.head_dim == 256
                                        ? AttentionJoin<Element, Out, 256>::kRows
                                        : AttentionJoin<Element, Out, 32>::kRows;
  return {args.tile_count, args.kv.kv_heads,
          static_cast<std::int32_t>(ceil_div(rows, rows_a_block))};
}

template <class Element, class Out>
void attention_decode(Stream stream, const AttentionDecodeArgs<Element, Out>& args) {
  check_shapes(args);
  check(args.max_queries >= 1 && args.max_queries * args.group <= kDecodeTileRows,
        "attention_decode: queries and heads of a tile fill 16 rows at most");
  check(args.ranges >= 1, "attention_decode: there is a range");
  if (args.kv.head_dim == 256) {
    launch<AttentionRanges<Element, Out, 256>>(attention_ranges_grid(args), stream, args);
    return launch<AttentionJoin<Element, Out, 256>>(attention_join_grid(args), stream, args);
  }
  launch<AttentionRanges<Element, Out, 32>>(attention_ranges_grid(args), stream, args);
  launch<AttentionJoin<Element, Out, 32>>(attention_join_grid(args), stream, args);
}

template Grid attention_prefill_grid(const AttentionArgs<Bf16, Bf16>&);
template void attention_prefill(Stream, const AttentionArgs<Bf16, Bf16>&);
template std::int64_t attention_scratch_floats(const AttentionDecodeArgs<Bf16, Bf16>&);
template Grid attention_ranges_grid(const AttentionDecodeArgs<Bf16, Bf16>&);
template Grid attention_join_grid(const AttentionDecodeArgs<Bf16, Bf16>&);
template void attention_decode(Stream, const AttentionDecodeArgs<Bf16, Bf16>&);
template Grid attention_prefill_grid(const AttentionArgs<Bf16, float>&);
template void attention_prefill(Stream, const AttentionArgs<Bf16, float>&);
template std::int64_t attention_scratch_floats(const AttentionDecodeArgs<Bf16, float>&);
template Grid attention_ranges_grid(const AttentionDecodeArgs<Bf16, float>&);
template Grid attention_join_grid(const AttentionDecodeArgs<Bf16, float>&);
template void attention_decode(Stream, const AttentionDecodeArgs<Bf16, float>&);
template Grid attention_prefill_grid(const AttentionArgs<F16, Bf16>&);
template void attention_prefill(Stream, const AttentionArgs<F16, Bf16>&);
template std::int64_t attention_scratch_floats(const AttentionDecodeArgs<F16, Bf16>&);
template Grid attention_ranges_grid(const AttentionDecodeArgs<F16, Bf16>&);
template Grid attention_join_grid(const AttentionDecodeArgs<F16, Bf16>&);
template void attention_decode(Stream, const AttentionDecodeArgs<F16, Bf16>&);
template Grid attention_prefill_grid(const AttentionArgs<F16, float>&);
template void attention_prefill(Stream, const AttentionArgs<F16, float>&);
template std::int64_t attention_scratch_floats(const AttentionDecodeArgs<F16, float>&);
template Grid attention_ranges_grid(const AttentionDecodeArgs<F16, float>&);
template Grid attention_join_grid(const AttentionDecodeArgs<F16, float>&);
template void attention_decode(Stream, const AttentionDecodeArgs<F16, float>&);

}  // namespace cairn::kernels::cuda
