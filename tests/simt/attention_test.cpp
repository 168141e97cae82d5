// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/attention_support.hpp"

#include "base/check.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

constexpr AttentionShape kSmall{2, 2, 32};
constexpr AttentionShape kLarge{2, 4, 256};

/// Positions at the edges of blocks, tiles and ranges.
constexpr std::int32_t kEdges[] = {0,   1,   15,  16,  17,  62,  63,  64,   65,   127,  128,
                                   510, 511, 512, 513, 575, 576, 577, 1022, 1023, 1024, 1025};

Floats row_of(const Floats& v, std::int64_t row, std::int64_t rows) {
  const std::int64_t n = static_cast<std::int64_t>(v.size()) / rows;
  return Floats(v.begin() + row * n, v.begin() + (row + 1) * n);
}

float worst_difference(const Floats& got, const Floats& want) {
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float difference = std::abs(got[i] - want[i]);
    worst = difference <= worst ? worst : difference;  // NaN stays
  }
  return worst;
}

template <class Element>
void check_order(AttentionShape shape, std::int64_t tokens, std::int32_t from, float spread) {
  Sequences<Element> s(shape, {tokens}, spread);
  const auto end = static_cast<std::int32_t>(tokens);
  const Floats all = s.run({{0, from, end}}, false);
  for (const std::int32_t position : kEdges) {
    if (position < from || position >= end) continue;
    INFO("group " << shape.group << " head_dim " << shape.head_dim << " position " << position);
    const Floats prefilled = row_of(all, position - from, end - from);
    REQUIRE(same_sums(prefilled, s.in_order(0, position), 0x1p-10));
    REQUIRE(same_bits(s.run({{0, position, position + 1}}, true), prefilled));
  }
}

}  // namespace

TEST_CASE("attention has the documented order, decoded as prefilled, at every edge") {
  check_order<Bf16>(kSmall, 130, 0, 2.0F);
  check_order<Bf16>(kSmall, 580, 508, 2.0F);
  check_order<Bf16>({1, 2, 32}, 1027, 1020, 2.0F);
  check_order<Bf16>({1, 2, 32}, 580, 570, 40.0F);  // one key outweighs the rest: many rescalings
  check_order<F16>(kSmall, 515, 508, 2.0F);
  check_order<Bf16>(kLarge, 66, 62, 2.0F);
  check_order<Bf16>({1, 4, 256}, 514, 511, 2.0F);
}

TEST_CASE("any number of heads shares a kv head") {
  for (const std::int32_t group : {1, 3, 5, 6, 8, 15, 16}) {
    check_order<Bf16>({1, group, 32}, 66, 62, 2.0F);
  }
}

TEST_CASE("attention agrees with an fp64 softmax within the rounding of its weights") {
  Sequences<Bf16> s(kSmall, {1030});
  Sequences<F16> half(kSmall, {130});
  Sequences<Bf16> large(kLarge, {70});
  for (const std::int32_t position : {0, 63, 64, 129, 600, 1029}) {
    // Weights are off by at most 2^-9 of themselves, and so is their sum; values lie within 1.
    const std::vector<Rows> row{{0, position, position + 1}};
    REQUIRE(worst_difference(s.run(row, true), s.exact(0, position)) < 0x1p-8F);
    if (position > 129) continue;
    REQUIRE(worst_difference(half.run(row, true), half.exact(0, position)) < 0x1p-11F);
    if (position > 69) continue;
    REQUIRE(worst_difference(large.run(row, false), large.exact(0, position)) < 0x1p-8F);
  }
}

TEST_CASE("a row's bits do not depend on how its sequence was cut") {
  constexpr std::int32_t begin = 500, end = 590;
  Sequences<Bf16> s({1, 2, 32}, {end});
  const Floats whole = s.run({{0, begin, end}}, false);
  for (const std::vector<std::int32_t>& cuts :
       {std::vector<std::int32_t>{512, end}, {501, 511, 513, 575, end}, {576, 577, end}}) {
    Floats parts;
    std::int32_t from = begin;
    for (const std::int32_t to : cuts) {
      const Floats part = s.run({{0, from, to}}, to - from < 6);
      parts.insert(parts.end(), part.begin(), part.end());
      from = to;
    }
    REQUIRE(same_bits(parts, whole));
  }
}

TEST_CASE("rows of a ragged batch have the bits they have alone") {
  Sequences<Bf16> s(kSmall, {70, 600, 1, 513});
  const std::vector<Rows> batch{{3, 510, 513}, {0, 60, 70}, {2, 0, 1}, {1, 599, 600}};
  const auto n = s.shape.width() * s.shape.group;
  for (const bool decode : {false, true}) {
    const Floats together = s.run(batch, decode);
    std::int64_t row = 0;
    for (const Rows& rows : batch) {
      for (std::int32_t p = rows.begin; p < rows.end; ++p, ++row) {
        const Floats alone = s.run({{rows.sequence, p, p + 1}}, !decode);
        REQUIRE(same_bits(together.data() + row * n, alone.data(), n));
      }
    }
  }
}

TEST_CASE("what lies in unused slots changes nothing") {
  for (const std::int32_t tokens : {1, 17, 66, 513}) {
    Sequences<Bf16> nan(kSmall, {tokens});
    Sequences<Bf16> zero(kSmall, {tokens}, 2.0F, Bf16{0});
    for (const bool decode : {false, true}) {
      const std::vector<Rows> last{{0, tokens - 1, tokens}};
      const Floats got = nan.run(last, decode);
      REQUIRE(same_bits(got, zero.run(last, decode)));
      for (const float x : got) REQUIRE(std::isfinite(x));
    }
  }
}

TEST_CASE("attention applies the gate and rounds last") {
  for (const AttentionShape shape : {kSmall, AttentionShape{1, 2, 256}}) {
    Sequences<Bf16> s(shape, {20});
    Random random(70);
    const auto width = shape.width() * shape.group;
    const Floats projected = random.floats(20 * 2 * width, -9.0F, 9.0F);
    const Buffer<float> gate(projected);
    for (const bool decode : {false, true}) {
      const std::vector<Rows> rows{{0, 0, 20}};
      Floats want = s.run(rows, decode);
      for (std::int64_t t = 0; t < 20; ++t) {
        cpu().sigmoid_gate(want.data() + t * width,
                           projected.data() + t * 2 * width + shape.head_dim, 2 * shape.head_dim,
                           shape.kv_heads * shape.group, shape.head_dim);
      }
      const float* gates = gate.data() + shape.head_dim;
      REQUIRE(same_bits(s.run(rows, decode, gates), want));
      REQUIRE(same_bits(s.run<Bf16>(rows, decode, gates), rounded<Bf16>(want)));
    }
  }
}

TEST_CASE("attention refuses shapes that no kernel takes") {
  const auto refuses = [](auto change) {
    AttentionDecodeArgs<Bf16, float> args;
    args.kv.head_dim = 32;
    args.kv.block_bytes = 4096;
    change(args);
    REQUIRE_THROWS_AS(attention_decode(nullptr, args), InvariantError);
    REQUIRE_THROWS_AS((attention_prefill<Bf16, float>(nullptr, args)), InvariantError);
  };
  const float gate = 0.0F;
  refuses([](auto& a) { a.kv.head_dim = 64; });
  refuses([](auto& a) { a.group = 0; });
  refuses([](auto& a) { a.group = 17; });
  refuses([](auto& a) { a.kv.block_bytes = 4104; });
  refuses([](auto& a) { a.kv.layer_offset = 8; });
  refuses([&](auto& a) {
    a.gate = &gate;
    a.ld_gate = 6;
  });
  AttentionDecodeArgs<Bf16, float> args;
  args.kv.head_dim = 32;
  args.group = 4;
  for (const auto& [queries, ranges] : {std::pair{5, 1}, {0, 1}, {1, 0}}) {
    args.max_queries = queries;
    args.ranges = ranges;
    REQUIRE_THROWS_AS(attention_decode(nullptr, args), InvariantError);
  }
  std::vector<QueryTile> tiles;
  REQUIRE_THROWS_AS(append_query_tiles({0, 0, 1, 0}, 17, kDecodeTileRows, tiles), InvariantError);
}

TEST_CASE("query tiles cover a slice in order") {
  std::vector<QueryTile> tiles;
  append_query_tiles({3, 7, 33, 100}, 4, kPrefillTileRows, tiles);
  append_query_tiles({4, 40, 0, 0}, 4, kPrefillTileRows, tiles);
  REQUIRE(tiles.size() == 3);
  for (std::int32_t i = 0; i < 3; ++i) {
    const QueryTile& tile = tiles[at(i)];
    REQUIRE(tile.sequence == 3);
    REQUIRE(tile.row == 7 + 16 * i);
    REQUIRE(tile.position == 100 + 16 * i);
    REQUIRE(tile.queries == (i < 2 ? 16 : 1));
  }
}

TEST_CASE("decode starts a block a tile, kv head and range, then one a row") {
  AttentionDecodeArgs<Bf16, float> args;
  args.kv.kv_heads = 2;
  args.kv.head_dim = 256;
  args.group = 4;
  args.tile_count = 3;
  args.ranges = 64;
  REQUIRE((attention_prefill_grid<Bf16, float>(args) == Grid{3, 2}));
  REQUIRE(attention_ranges_grid(args) == Grid{3, 2, 64});
  REQUIRE(attention_join_grid(args) == Grid{3, 2, 4});
  REQUIRE(attention_scratch_floats(args) == 3 * 8 * 64 * 258);
  args.kv.head_dim = 32;
  args.max_queries = 3;
  REQUIRE(attention_join_grid(args) == Grid{3, 2, 2});
}

TEST_CASE("attention reads each live key once a tile of queries, in whole sectors") {
  constexpr std::int64_t tokens = 520, dim = 256;
  Sequences<Bf16> s({1, 4, dim}, {tokens});
  Counting counting;
  s.run<Bf16>({{0, 504, 520}}, false);
  require_efficient(counting.of("attention_prefill"),
                    tokens * dim * 2 * 2 + 16 * 4 * dim * (2 + 2));
  s.run<Bf16>({{0, 519, 520}}, true);
  // Two ranges, each with the queries; parts of fp32 are written and read.
  require_efficient(counting.of("attention_ranges"),
                    tokens * dim * 2 * 2 + 2 * 4 * dim * 2 + 2 * 4 * dim * 4);
  require_efficient(counting.of("attention_join"), 2 * 4 * (dim + 2) * 4 + 4 * dim * 2);
}

}  // namespace cairn::kernels::cuda::testing
