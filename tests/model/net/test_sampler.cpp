// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/check.hpp"
#include "kernels/cpu/isa.hpp"
#include "model/net/sampler.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::model;

namespace {

std::vector<float> normal_logits(std::size_t n, std::uint64_t seed, float spread = 2.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

// The documented meaning of the parameters, written down once more: probabilities in fp64, by
// sorting.
std::vector<double> reference(std::vector<float> logits, const SamplingParams& p,
                              const std::vector<std::int32_t>& prompt,
                              const std::vector<std::int32_t>& generated) {
  const auto n = logits.size();
  std::vector<double> x(logits.begin(), logits.end());
  for (const auto& [id, bias] : p.logit_bias) {
    if (id >= 0 && static_cast<std::size_t>(id) < n) x[static_cast<std::size_t>(id)] += bias;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const auto times = std::count(generated.begin(), generated.end(), id);
    const bool seen = times > 0 || std::count(prompt.begin(), prompt.end(), id) > 0;
    if (seen) x[i] = x[i] > 0 ? x[i] / p.repetition_penalty : x[i] * p.repetition_penalty;
    x[i] -= p.frequency_penalty * static_cast<double>(times);
    if (times > 0) x[i] -= p.presence_penalty;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  std::vector<double> w(n, 0);
  std::size_t kept = p.top_k > 0 ? std::min<std::size_t>(n, static_cast<std::size_t>(p.top_k)) : n;
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    w[order[i]] = std::exp((x[order[i]] - x[order[0]]) / p.temperature);
    total += w[order[i]];
  }
  if (p.top_p < 1) {
    double sum = 0;
    std::size_t i = 0;
    for (; i < kept && (i == 0 || sum < p.top_p * total); ++i) sum += w[order[i]];
    for (std::size_t j = i; j < kept; ++j) w[order[j]] = 0;
    kept = i;
  }
  for (std::size_t i = 1; i < kept; ++i) {
    if (w[order[i]] < p.min_p) w[order[i]] = 0;
  }
  total = std::accumulate(w.begin(), w.end(), 0.0);
  for (double& v : w) v /= total;
  return w;
}

struct Case {
  const char* name;
  SamplingParams params;
};

TokenHistory history_of(const std::vector<std::int32_t>& prompt,
                        const std::vector<std::int32_t>& generated) {
  TokenHistory h;
  h.add_prompt(prompt);
  for (const std::int32_t t : generated) h.add_generated(t);
  return h;
}

// Draws and expected shares must agree: no id outside the support, chi-square within five
// deviations.
void check_distribution(const std::vector<float>& logits, SamplingParams params,
                        const std::vector<std::int32_t>& prompt,
                        const std::vector<std::int32_t>& generated) {
  constexpr int kDraws = 20000;
  const std::vector<double> wanted = reference(logits, params, prompt, generated);
  const TokenHistory history = history_of(prompt, generated);
  Sampler sampler(static_cast<std::int32_t>(logits.size()));
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(
        sampler.sample(logits, params, &history, 0, static_cast<std::uint64_t>(i)))];
  }
  double chi = 0;
  double classes = 0;
  double rest_wanted = 0;
  double rest_drawn = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (wanted[i] == 0) {
      INFO("id " << i);
      CHECK(counts[i] == 0);
      continue;
    }
    const double expected = wanted[i] * kDraws;
    if (expected < 5) {  // too rare for the approximation: one class together
      rest_wanted += expected;
      rest_drawn += counts[i];
      continue;
    }
    chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++classes;
  }
  if (rest_wanted >= 5) {
    chi += (rest_drawn - rest_wanted) * (rest_drawn - rest_wanted) / rest_wanted;
    ++classes;
  }
  const double freedom = std::max(0.0, classes - 1);
  INFO("chi-square " << chi << " over " << freedom << " degrees of freedom");
  CHECK(chi <= freedom + 5 * std::sqrt(2 * freedom) + 1e-9);
}

}  // namespace

TEST_CASE("philox gives the published known answers") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the random number depends on seed, choice and index and is uniform") {
  CHECK(sampling_uniform(1, 0, 5) == sampling_uniform(1, 0, 5));
  CHECK(sampling_uniform(1, 0, 5) != sampling_uniform(2, 0, 5));
  CHECK(sampling_uniform(1, 0, 5) != sampling_uniform(1, 1, 5));
  CHECK(sampling_uniform(1, 0, 5) != sampling_uniform(1, 0, 6));
  CHECK(sampling_uniform(std::uint64_t{1} << 40, 0, 5) != sampling_uniform(0, 0, 5));
  std::array<int, 64> bins{};
  for (std::uint64_t i = 0; i < 64000; ++i) {
    const double u = sampling_uniform(99, 3, i);
    REQUIRE((u >= 0 && u < 1));
    ++bins[static_cast<std::size_t>(u * 64)];
  }
  double chi = 0;
  for (const int b : bins) chi += (b - 1000.0) * (b - 1000.0) / 1000.0;
  CHECK(chi < 63 + 5 * std::sqrt(126.0));
}

TEST_CASE("tokens are drawn with the documented probabilities") {
  const auto logits = normal_logits(60, 4);
  const std::vector<std::int32_t> prompt{1, 2, 3, 3};
  const std::vector<std::int32_t> generated{3, 7, 7, 7, 9};
  const std::vector<Case> cases = [] {
    std::vector<Case> all(14);
    all[0].name = "plain";
    all[1].name = "temperature 0.5";
    all[1].params.temperature = 0.5F;
    all[2].name = "temperature 3";
    all[2].params.temperature = 3;
    all[3].name = "top-k 5";
    all[3].params.top_k = 5;
    all[4].name = "top-p 0.8";
    all[4].params.top_p = 0.8F;
    all[5].name = "min-p 0.1";
    all[5].params.min_p = 0.1F;
    all[6].name = "top-k then top-p then min-p";
    all[6].params.top_k = 12;
    all[6].params.top_p = 0.9F;
    all[6].params.min_p = 0.05F;
    all[7].name = "repetition";
    all[7].params.repetition_penalty = 1.7F;
    all[8].name = "presence";
    all[8].params.presence_penalty = 1.5F;
    all[9].name = "frequency";
    all[9].params.frequency_penalty = 0.8F;
    all[10].name = "bias";
    all[10].params.logit_bias = {{5, 4.0F}, {6, -100.0F}, {5, 1.0F}, {-1, 9.0F}, {60, 9.0F}};
    all[11].name = "everything";
    all[11].params = all[10].params;
    all[11].params.temperature = 0.7F;
    all[11].params.top_k = 20;
    all[11].params.top_p = 0.95F;
    all[11].params.repetition_penalty = 0.8F;
    all[11].params.presence_penalty = -0.5F;
    all[11].params.frequency_penalty = 0.3F;
    all[12].name = "top-p and min-p without top-k";
    all[12].params.top_p = 0.7F;
    all[12].params.min_p = 0.2F;
    all[13].name = "top-k beyond the vocabulary";
    all[13].params.top_k = 1000;
    return all;
  }();
  for (const Case& c : cases) {
    for (const std::uint64_t seed : {1ULL, 77ULL}) {
      INFO(c.name << ", seed " << seed);
      SamplingParams params = c.params;
      params.seed = seed;
      check_distribution(logits, params, prompt, generated);
    }
  }
}

TEST_CASE("greedy takes the largest adjusted logit, ties to the lowest id") {
  Sampler sampler(5);
  SamplingParams greedy;
  greedy.temperature = 0;
  greedy.top_k = 2;
  greedy.top_p = 0.1F;
  CHECK(sampler.sample(std::vector<float>{1, 3, 3, 2, 3}, greedy, nullptr, 0, 0) == 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(sampler.sample(std::vector<float>{nan, 1, nan, 2, 0}, greedy, nullptr, 0, 0) == 3);
  const TokenHistory history = history_of({}, {1, 1, 2});
  greedy.frequency_penalty = 0.5F;
  CHECK(sampler.sample(std::vector<float>{1, 3, 3, 2, 2.9F}, greedy, &history, 0, 0) == 4);
  greedy.logit_bias = {{0, 2.0F}};
  CHECK(sampler.sample(std::vector<float>{1, 3, 3, 2, 2.9F}, greedy, &history, 0, 0) == 0);
}

TEST_CASE("padding ids are neither sampled nor reported") {
  Sampler sampler(4);
  const std::vector<float> logits{0, 1, 2, 3, 50, 60};
  SamplingParams params;
  for (const float temperature : {0.0F, 1.0F, 100.0F}) {
    params.temperature = temperature;
    for (std::uint64_t i = 0; i < 500; ++i) {
      CHECK(sampler.sample(logits, params, nullptr, 0, i) < 4);
    }
  }
  params.logit_bias = {{5, 100.0F}};
  CHECK(sampler.sample(logits, params, nullptr, 0, 0) < 4);
  const TokenLogprobs got = sampler.logprobs(logits, 3, 20);
  REQUIRE(got.top.size() == 4);
  CHECK(got.top.front().token == 3);
  CHECK(got.chosen.logprob == got.top.front().logprob);
  CHECK(sampler.logprobs(logits, 5, 0).chosen.logprob == -std::numeric_limits<float>::infinity());
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{1, 2, 3}, params, nullptr, 0, 0),
                  InvariantError);
}

TEST_CASE("the edges of top-p") {
  Sampler sampler(4);
  // Shares 1/2, 1/4, 1/8, 1/8.
  const float ln2 = std::log(2.0F);
  const std::vector<float> logits{ln2, 2 * ln2, 0, 0};
  const auto support = [&](SamplingParams params) {
    std::vector<std::int32_t> out;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      out.push_back(sampler.sample(logits, params, nullptr, 0, i));
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  };
  using Ids = std::vector<std::int32_t>;
  for (const std::int32_t top_k : {0, 3}) {
    SamplingParams params;
    params.top_k = top_k;
    INFO("top-k " << top_k);
    params.top_p = 0;
    CHECK(support(params) == Ids{1});
    params.top_p = 0.4F;
    CHECK(support(params) == Ids{1});
    params.top_p = 0.6F;
    CHECK(support(params) == Ids{0, 1});
    params.top_p = top_k == 0 ? 0.8F : 0.9F;  // the third share is one of two equals
    CHECK(support(params) == Ids{0, 1, 2});
    params.top_p = 1;
    CHECK(support(params) == (top_k == 0 ? Ids{0, 1, 2, 3} : Ids{0, 1, 2}));
  }
  SamplingParams all;
  all.min_p = 1;
  CHECK(support(all) == Ids{1});
  all.min_p = 5;
  CHECK(support(all) == Ids{1});
}

TEST_CASE("rows without a distribution still give a valid token") {
  Sampler sampler(3);
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SamplingParams params;
  const auto valid = [&](std::vector<float> row) {
    for (const float temperature : {1.0F, 1e-30F, 1e-45F, 1e30F}) {
      for (const std::int32_t top_k : {0, 2}) {
        params.temperature = temperature;
        params.top_k = top_k;
        params.top_p = 0.9F;
        const std::int32_t id = sampler.sample(row, params, nullptr, 0, 1);
        CHECK((id >= 0 && id < 3));
      }
    }
  };
  valid({-inf, -inf, -inf});
  valid({nan, nan, nan});
  valid({inf, inf, 0});
  valid({0, nan, -inf});
  params = {};
  for (std::uint64_t i = 0; i < 200; ++i) {
    CHECK(sampler.sample(std::vector<float>{nan, 0, -inf}, params, nullptr, 0, i) == 1);
  }
}

TEST_CASE("log-probs are the log-softmax of the raw logits") {
  const auto logits = normal_logits(5000, 8);
  Sampler sampler(5000);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  const TokenLogprobs got = sampler.logprobs(logits, 17, 20);
  CHECK(std::abs(got.chosen.logprob - (logits[17] - std::log(sum))) < 1e-5);
  std::vector<std::int32_t> order(5000);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  REQUIRE(got.top.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(got.top[i].token == order[i]);
    CHECK(std::abs(got.top[i].logprob -
                   (logits[static_cast<std::size_t>(order[i])] - std::log(sum))) < 1e-5);
  }
  CHECK(sampler.logprobs(std::vector<float>(5000, 1.0F), 0, 3).top[2].token == 2);
  CHECK(sampler.logprobs(logits, 17, 0).top.empty());
}

TEST_CASE("a large vocabulary is filtered as a full sort would") {
  constexpr std::int32_t kVocab = 248320;
  auto logits = normal_logits(kVocab, 21, 3.0F);
  for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i]);  // ties
  std::vector<SamplingParams> all(5);
  all[0].top_p = 0.5F;
  all[1].top_k = 40;
  all[1].top_p = 0.9F;
  all[2].top_k = 5000;
  all[3].temperature = 0.6F;
  all[3].top_p = 0.95F;
  all[3].min_p = 0.01F;
  all[4].top_p = 0.02F;
  for (SamplingParams& params : all) {
    const std::vector<double> wanted = reference(logits, params, {}, {});
    std::vector<std::int32_t> first;
    for (const kernels::Isa isa : kernels::supported_isas()) {
      Sampler sampler(kVocab, kernels::to_string(isa));
      std::vector<std::int32_t> drawn;
      for (std::uint64_t i = 0; i < 60; ++i) {
        drawn.push_back(sampler.sample(logits, params, nullptr, 2, i));
        CHECK(wanted[static_cast<std::size_t>(drawn.back())] > 0);
      }
      if (first.empty()) first = drawn;
      CHECK(drawn == first);
    }
  }
}
