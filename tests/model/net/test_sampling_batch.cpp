// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.hpp"
#include "kernels/sampling.hpp"
#include "model/net/sampling_batch.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sampling_cases.hpp"

using namespace cairn;
using namespace cairn::model;
using kernels::cuda::SampleEntry;
using kernels::cuda::SampleParams;
using model::testing::history_of;

namespace {

struct Packed {
  SamplingBatch batch;
  std::vector<SampleParams> params;
  std::vector<SampleEntry> entries;
};

Packed pack(const std::vector<SampleRow>& rows, std::int32_t slots) {
  std::vector<std::byte> to(sampling_batch_bytes(rows, slots), std::byte{0xff});
  Packed out;
  out.batch = pack_sampling(rows, slots, 1000, to);
  REQUIRE(out.batch.bytes <= to.size());
  const auto* params = reinterpret_cast<const SampleParams*>(to.data());
  out.params.assign(params, params + slots);
  const auto* entries = reinterpret_cast<const SampleEntry*>(params + slots);
  const std::size_t bytes = out.batch.bytes - out.params.size() * sizeof(SampleParams);
  out.entries.assign(entries, entries + bytes / sizeof(SampleEntry));
  return out;
}

std::vector<std::int32_t> ids(const std::vector<SampleEntry>& entries, std::int32_t begin,
                              std::int32_t end) {
  std::vector<std::int32_t> out;
  for (std::int32_t i = begin; i < end; ++i) out.push_back(entries[static_cast<std::size_t>(i)].id);
  return out;
}

}  // namespace

TEST_CASE("rows are packed with what their filters need, and padding behind them") {
  SamplingParams greedy;
  greedy.temperature = 0;
  greedy.top_k = 5;
  SamplingParams drawn;
  drawn.temperature = 0.5F;
  drawn.min_p = 0.25F;
  drawn.seed = 77;
  SamplingParams cut;
  cut.top_k = 40;
  cut.top_p = 0.75F;
  const Packed one = pack({{3, &greedy, nullptr, 0, 0}}, 1);
  CHECK_FALSE(one.batch.plan.draws);
  CHECK_FALSE(one.batch.plan.cuts);
  CHECK(one.params[0].inverse_temperature == 0);
  const Packed two = pack({{3, &greedy, nullptr, 0, 0}, {9, &drawn, nullptr, 2, 11}}, 2);
  CHECK(two.batch.plan.draws);
  CHECK_FALSE(two.batch.plan.cuts);
  CHECK(two.params[1].row == 9);
  CHECK(two.params[1].inverse_temperature == 2);
  CHECK(two.params[1].min_p == 0.25F);
  CHECK(two.params[1].seed == 77);
  CHECK(two.params[1].choice == 2);
  CHECK(two.params[1].index == 11);
  CHECK(two.params[1].nucleus == 0);
  CHECK(two.params[1].adjusted == -1);
  const Packed all = pack({{0, &cut, nullptr, 0, 0}}, 3);
  CHECK(all.batch.plan.cuts);
  CHECK(all.batch.plan.adjusted == 0);
  CHECK(all.params[0].top_k == 40);
  CHECK(all.params[0].nucleus == 1);
  CHECK(all.params[0].top_p == std::uint64_t{3} << 62);
  CHECK(all.params[1].row == -1);
  CHECK(all.params[2].row == -1);
  cut.top_k = 1000;  // of 1,000 ids: no cut
  cut.top_p = 1;
  CHECK_FALSE(pack({{0, &cut, nullptr, 0, 0}}, 1).batch.plan.cuts);
}

TEST_CASE(
    "biases are packed by id, those of one id in their order; ids seen only where they count") {
  const TokenHistory history = history_of({1, 2, 3}, {3, 8, 8});
  SamplingParams biased;
  biased.logit_bias = {{7, 1.0F}, {-4, 2.0F}, {7, 3.0F}, {5, 4.0F}, {7, 5.0F}};
  SamplingParams repeated;
  repeated.repetition_penalty = 1.5F;
  SamplingParams present;
  present.presence_penalty = 0.5F;
  const SamplingParams plain;
  const Packed got = pack({{0, &biased, &history, 0, 0},
                           {1, &plain, &history, 0, 0},
                           {2, &repeated, &history, 0, 0},
                           {3, &present, &history, 0, 0}},
                          4);
  CHECK(got.batch.plan.adjusted == 3);
  const auto& p = got.params;
  CHECK(ids(got.entries, p[0].bias_begin, p[0].bias_end) ==
        std::vector<std::int32_t>{-4, 5, 7, 7, 7});
  std::vector<float> values;
  for (int i = 2; i < 5; ++i) values.push_back(std::bit_cast<float>(got.entries[i].value));
  CHECK(values == std::vector<float>{1, 3, 5});
  CHECK(p[0].seen_begin == p[0].seen_end);
  CHECK(p[0].adjusted == 0);
  CHECK(p[1].adjusted == -1);
  CHECK(p[2].adjusted == 1);
  CHECK(ids(got.entries, p[2].seen_begin, p[2].seen_end) == std::vector<std::int32_t>{1, 2, 3, 8});
  CHECK(got.entries[static_cast<std::size_t>(p[2].seen_begin)].value == 0);
  CHECK(got.entries[static_cast<std::size_t>(p[2].seen_end) - 1].value == 2);
  CHECK(p[3].adjusted == 2);
  CHECK(ids(got.entries, p[3].seen_begin, p[3].seen_end) == std::vector<std::int32_t>{3, 8});
}

TEST_CASE("packing refuses more rows than slots and memory that is too short") {
  SamplingParams biased;
  biased.logit_bias = {{7, 1.0F}};
  const std::vector<SampleRow> rows(2, {0, &biased, nullptr, 0, 0});
  std::vector<std::byte> to(sampling_batch_bytes(rows, 2));
  CHECK_THROWS_AS(pack_sampling(rows, 1, 10, to), InvariantError);
  const std::span<std::byte> all(to);
  CHECK_THROWS_AS(pack_sampling(rows, 2, 10, all.first(to.size() - 1)), InvariantError);
  CHECK_THROWS_AS(pack_sampling(rows, 2, 10, all.first(sizeof(SampleParams))), InvariantError);
  CHECK(pack_sampling(rows, 2, 10, to).bytes == to.size());
}
