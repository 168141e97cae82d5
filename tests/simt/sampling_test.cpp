// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "tests/simt/sampling_case.hpp"

namespace cairn::kernels::cuda::testing {

TEST_CASE("the device samples the tokens of the CPU's sampler") {
  std::mt19937_64 random(5);
  for (const std::int32_t vocab : {1, 3, 1023, 1025, 2500}) {
    SamplingCase c(vocab);
    for (int i = 0; i < 24; ++i) {
      c.add(odd_logits(random, vocab, i + (vocab == 1025 ? 24 : 1)), any_params(random, vocab),
            history_of({0, vocab / 2, vocab}, {vocab - 1, vocab / 3, vocab / 3}));
    }
    const Scratch scratch(c.rows(), vocab, c.rows());
    c.require_cpu_tokens(c.run_all(scratch));
    REQUIRE(scratch.zeros_stand());
  }
}

TEST_CASE("a row samples the same alone, in another place and beside padding, which stays") {
  std::mt19937_64 random(6);
  constexpr std::int32_t kVocab = 1100;
  SamplingCase c(kVocab);
  for (int i = 1; i < 7; ++i) {
    c.add(odd_logits(random, kVocab, i), any_params(random, kVocab),
          history_of({5}, {6, 7, kVocab - 1}));
  }
  const Scratch scratch(8, kVocab + 900, 8);  // longer than this call needs
  const std::vector<Sampled> together = c.run_all(scratch);
  const std::vector<Sampled> others = c.run({4, 2, 5}, 5, scratch);
  for (const auto& [there, here] : {std::pair{0, 4}, {1, 2}, {2, 5}}) {
    REQUIRE(others[at(there)].token == together[at(here)].token);
    REQUIRE(others[at(there)].finite == together[at(here)].finite);
  }
  for (const std::size_t place : {3, 4}) REQUIRE(others[place].token == -1);  // as it was
  REQUIRE(c.run({3}, 1, scratch)[0].token == together[3].token);
  REQUIRE(scratch.zeros_stand());
}

TEST_CASE("a nucleus ends where top-k's share of its last bin says") {
  // Weights 1, 100 of about e^-0.5 and 400 of e^-1, of which top-k takes 50: half of the 80 that
  // are left lies among the hundred, half of all 208 would not.
  Floats row(600, -50.0F);
  row[599] = 2.0F;
  for (std::size_t i = 0; i < 100; ++i) row[5 * i] = 1.5F + 1e-3F * static_cast<float>(i);
  for (std::size_t i = 0; i < 400; ++i) row[i + i / 4 + 1] = 1.0F;
  SamplingCase c(600);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SamplingParams p;
    p.seed = seed;
    p.top_k = 151;
    p.top_p = 0.5F;
    c.add(row, p);
  }
  const Scratch scratch(4, 600, 0);
  c.require_cpu_tokens(c.run_all(scratch));
}

TEST_CASE("a cut through more equal logits than are listed is the CPU's") {
  constexpr std::int32_t kVocab = 17000;
  SamplingCase c(kVocab);
  for (int i = 0; i < 2; ++i) {
    SamplingParams p;
    p.seed = 8;
    p.top_k = i == 0 ? 16500 : 0;
    p.top_p = 0.97F;
    c.add(Floats(kVocab, 1.0F), p);
  }
  const Scratch scratch(2, kVocab, 0);
  c.require_cpu_tokens(c.run_all(scratch));
}

TEST_CASE("more slices than threads are drawn from as the CPU does") {
  constexpr std::int32_t kVocab = 263000;
  SamplingCase c(kVocab);
  c.add(normal_logits(kVocab, 3), SamplingParams());
  const Scratch scratch(1, kVocab, 0);
  c.require_cpu_tokens(c.run_all(scratch));
}

TEST_CASE(
    "sampling takes one launch when greedy, two when drawn, four with cuts, and the least passes") {
  constexpr std::int32_t kVocab = 8192;
  const auto count = [](const SamplingParams& p) {
    SamplingCase c(kVocab);
    c.add(normal_logits(kVocab, 4), p);
    const Scratch scratch(1, kVocab, 0);
    Counting counting(simt::Blocks::may_meet);
    c.run_all(scratch);
    return counting.total();
  };
  constexpr double kPass = 4.0 * kVocab;
  SamplingParams p;
  p.temperature = 0;
  const Counters greedy = count(p);
  REQUIRE(greedy.launches == 1);
  REQUIRE(static_cast<double>(32 * (greedy.loads.sectors + greedy.stores.sectors)) <= 1.1 * kPass);
  p.temperature = 1;
  p.min_p = 0.1F;
  const Counters drawn = count(p);
  REQUIRE(drawn.launches == 2);
  // The slice that holds the token is read once more: 1,024 ids.
  const double least = 2 * kPass + 4096;
  REQUIRE(static_cast<double>(32 * (drawn.loads.sectors + drawn.stores.sectors)) <= 1.1 * least);
  p.top_p = 0.9F;
  REQUIRE(count(p).launches == 4);
  p.temperature = 0;
  REQUIRE(count(p).launches == 1);
}

TEST_CASE("one row of Qwen3.5 is sampled by more blocks than an H200 has multiprocessors") {
  SampleArgs args;
  args.vocab = 248320;
  args.rows = 3;
  REQUIRE(sample_grid(args) == Grid{243, 3});
  REQUIRE(sample_grid(args).blocks() / args.rows >= 132);
}

TEST_CASE("sampling refuses what does not fit") {
  const auto refused = [](auto change) {
    SampleArgs args;
    args.vocab = 100;
    args.ld = 100;
    args.scratch = {nullptr, 1, 100, 1};
    change(args);
    REQUIRE_THROWS_AS(sample(nullptr, args), InvariantError);
  };
  refused([](SampleArgs& a) { a.ld = 96; });
  refused([](SampleArgs& a) { a.ld = 102; });
  refused([](SampleArgs& a) { a.vocab = 0; });
  refused([](SampleArgs& a) { a.rows = 2; });
  refused([](SampleArgs& a) { a.plan.adjusted = 2; });
  refused([](SampleArgs& a) { a.scratch.vocab = 99; });
}

}  // namespace cairn::kernels::cuda::testing
