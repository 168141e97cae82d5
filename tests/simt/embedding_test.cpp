// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/embedding.hpp"

#include "base/check.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

std::vector<Bf16> random_table(Random& random, std::int64_t vocab, std::int64_t width) {
  const Floats values = random.floats(vocab * width, -4.0F, 4.0F);
  std::vector<Bf16> table(values.size());
  std::transform(values.begin(), values.end(), table.begin(), to_bf16);
  return table;
}

}  // namespace

TEST_CASE("embedding gathers the rows that the CPU gathers") {
  Random random(40);
  for (const std::int64_t width : {4, 60, 64, 1020, 1024, 1028, 2052}) {
    constexpr std::int32_t vocab = 11;
    const std::vector<Bf16> table = random_table(random, vocab, width);
    PackedMatrix packed(vocab, width);
    packed.pack(0, vocab, table.data());
    for (const std::int64_t rows : {0, 1, 2, 7}) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t r = 0; r < rows; ++r) {
        tokens.push_back(static_cast<std::int32_t>(random.below(vocab)));
      }
      if (rows > 1) tokens[0] = vocab - 1;
      Floats want(at(rows * width));
      for (std::int64_t r = 0; r < rows; ++r) {
        cpu().embed_packed(packed, tokens[at(r)], want.data() + r * width);
      }
      const Buffer<Bf16> device_table(table);
      const Buffer<std::int32_t> device_tokens(tokens);
      Buffer<float> y(want.size());
      embedding(nullptr, {device_tokens.data(), device_table.data(), rows, width, y.data()});
      REQUIRE(same_bits(y.read(), want));
    }
  }
}

TEST_CASE("embedding refuses a width that its vectors do not divide") {
  EmbeddingArgs args;
  args.width = 1022;
  REQUIRE_THROWS_AS(embedding(nullptr, args), InvariantError);
}

TEST_CASE("embedding moves each row once") {
  Random random(41);
  constexpr std::int64_t rows = 3, width = 1024;
  const Buffer<Bf16> table(random_table(random, 5, width));
  const Buffer<std::int32_t> tokens(std::vector<std::int32_t>{4, 0, 2});
  Buffer<float> y(rows * width);
  Counting counting;
  embedding(nullptr, {tokens.data(), table.data(), rows, width, y.data()});
  // Besides, each of the 8 warps of a row asks for its token: one sector of which 4 bytes count.
  const Counters counted = counting.of("embedding");
  REQUIRE(counted.launches == 1);
  REQUIRE(32 * counted.stores.sectors == rows * width * 4);
  REQUIRE(32 * counted.loads.sectors == rows * (width * 2 + 8 * 32));
}

}  // namespace cairn::kernels::cuda::testing
