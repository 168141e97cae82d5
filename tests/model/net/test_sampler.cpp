// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/check.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/sampling.hpp"
#include "model/net/sampler.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sampling_cases.hpp"

using namespace cairn;
using namespace cairn::model;
using namespace cairn::model::testing;

namespace {

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

// docs/order.md once more, in the plainest way: sort everything, add up 128-bit integers.
std::int32_t defined_token(std::vector<float> x, const SamplingParams& p,
                           const std::vector<std::int32_t>& prompt,
                           const std::vector<std::int32_t>& generated, std::int32_t choice,
                           std::uint64_t index) {
  __extension__ using Wide = unsigned __int128;
  const auto n = static_cast<std::int32_t>(x.size());
  const auto at = [](std::int32_t id) { return static_cast<std::size_t>(id); };
  for (const auto& [id, bias] : p.logit_bias) {
    if (id >= 0 && id < n) x[at(id)] += bias;
  }
  for (std::int32_t id = 0; id < n; ++id) {
    const auto times = std::count(generated.begin(), generated.end(), id);
    if (times == 0 && std::count(prompt.begin(), prompt.end(), id) == 0) continue;
    float& v = x[at(id)];
    v = v > 0 ? v / p.repetition_penalty : v * p.repetition_penalty;
    v -= p.frequency_penalty * static_cast<float>(times);
    if (times > 0) v -= p.presence_penalty;
  }
  std::vector<std::int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return std::isnan(x[at(b)]) ? !std::isnan(x[at(a)]) : x[at(a)] > x[at(b)];
  });
  const float max = x[at(order[0])];
  const float inverse = 1 / p.temperature;
  if (!(p.temperature > 0) || !std::isfinite(inverse) || !std::isfinite(max)) return order[0];
  std::vector<Wide> w;
  std::vector<float> share;
  for (const float v : x) {
    const float exponent = (v - max) * inverse;
    share.push_back(std::isnan(exponent) ? 0 : kernels::exp_f32(exponent));
    w.push_back(static_cast<Wide>(std::nearbyint(static_cast<double>(share.back()) * 0x1p40)));
  }
  std::size_t kept = p.top_k > 0 ? std::min(order.size(), at(p.top_k)) : order.size();
  if (p.top_p < 1) {
    Wide total = 0;
    for (std::size_t i = 0; i < kept; ++i) total += w[at(order[i])];
    const auto fraction = static_cast<Wide>(std::max(p.top_p, 0.0F) * 0x1p64);
    Wide sum = 0;
    std::size_t run = 0;
    while (run == 0 || (run < kept && sum << 64 < fraction * total)) sum += w[at(order[run++])];
    kept = run;
  }
  order.resize(kept);
  std::erase_if(order, [&](std::int32_t id) { return share[at(id)] < std::min(p.min_p, 1.0F); });
  std::sort(order.begin(), order.end());
  Wide total = 0;
  for (const std::int32_t id : order) total += w[at(id)];
  const Wide target = (total * kernels::sampling_random(p.seed, choice, index)) >> 64;
  Wide sum = 0;
  for (const std::int32_t id : order) {
    sum += w[at(id)];
    if (sum > target) return id;
  }
  FAIL("nothing was drawn");
  return -1;
}

struct Case {
  const char* name;
  SamplingParams params;
};

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
  using kernels::RandomWords;
  const auto philox = [](RandomWords counter, std::uint32_t low, std::uint32_t high) {
    const RandomWords out = kernels::philox4x32(counter, low, high);
    return std::vector<std::uint32_t>(out.word, out.word + 4);
  };
  using Words = std::vector<std::uint32_t>;
  CHECK(philox({{0, 0, 0, 0}}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({{~0U, ~0U, ~0U, ~0U}}, ~0U, ~0U) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the random number depends on seed, choice and index and is uniform") {
  using kernels::sampling_random;
  CHECK(sampling_random(1, 0, 5) == sampling_random(1, 0, 5));
  CHECK(sampling_random(1, 0, 5) != sampling_random(2, 0, 5));
  CHECK(sampling_random(1, 0, 5) != sampling_random(1, 1, 5));
  CHECK(sampling_random(1, 0, 5) != sampling_random(1, 0, 6));
  CHECK(sampling_random(std::uint64_t{1} << 40, 0, 5) != sampling_random(0, 0, 5));
  CHECK(sampling_random(0, 0, std::uint64_t{1} << 40) != sampling_random(0, 0, 0));
  std::array<int, 64> bins{};
  for (std::uint64_t i = 0; i < 64000; ++i) ++bins[sampling_random(99, 3, i) >> 58];
  double chi = 0;
  for (const int b : bins) chi += (b - 1000.0) * (b - 1000.0) / 1000.0;
  CHECK(chi < 63 + 5 * std::sqrt(126.0));
}

TEST_CASE("ranks order logits as numbers, equal ones by id, and NaN below all") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> rising{
      std::numeric_limits<float>::quiet_NaN(), -inf, -1e38F, -1, -1e-45F, 0, 1e-45F, 1, 1e38F, inf};
  for (std::size_t i = 0; i < rising.size(); ++i) {
    const std::uint64_t rank = kernels::rank_of(rising[i], 7);
    CHECK(kernels::rank_id(rank) == 7);
    if (i > 0) {
      CHECK(kernels::rank_logit(rank) == rising[i]);
      CHECK(rank > kernels::rank_of(rising[i - 1], 0));
    }
    CHECK(rank > kernels::rank_of(rising[i], 8));
  }
  CHECK(kernels::rank_of(-0.0F, 3) == kernels::rank_of(0.0F, 3));
}

TEST_CASE("a weight is the exponential in units of 2^-40, rounded to even") {
  CHECK(kernels::weight_of(1, 0) == std::uint64_t{1} << 40);
  CHECK(kernels::weight_of(0x1.5p-40F, 0) == 1);
  CHECK(kernels::weight_of(0x1p-41F, 0) == 0);
  CHECK(kernels::weight_of(0x1.8p-40F, 0) == 2);
  CHECK(kernels::weight_of(0x1.4p-39F, 0) == 2);
  CHECK(kernels::weight_of(0.25F, 0.25F) == std::uint64_t{1} << 38);
  CHECK(kernels::weight_of(0.2499F, 0.25F) == 0);
  CHECK(kernels::weight_of(1, 5) == std::uint64_t{1} << 40);
  CHECK(kernels::weight_exponent(std::numeric_limits<float>::quiet_NaN(), 1, 1) == -104);
  auto logits = normal_logits(70000, 3, 6.0F);  // longer than lanes add up without a pause
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  const float max = *std::max_element(logits.begin() + 6, logits.end());
  for (const kernels::WeightArgs& args :
       {kernels::WeightArgs{max, 0.5F, -std::numeric_limits<float>::infinity(), 0},
        kernels::WeightArgs{max, 1e-3F, -3.0F, 0}, kernels::WeightArgs{max, 1.5F, -3.0F, 1e-4F}}) {
    std::vector<float> want;
    std::uint64_t sum = 0;
    for (const float x : logits) {
      const float e = kernels::exp_f32(kernels::weight_exponent(x, max, args.inverse_temperature));
      const std::uint64_t w = x < args.from ? 0 : kernels::weight_of(e, args.min_p);
      want.push_back(static_cast<float>(w));
      sum += w;
    }
    std::vector<float> got(want.size());
    for (const kernels::Isa isa : kernels::supported_isas()) {
      INFO(kernels::to_string(isa));
      const auto n = static_cast<std::int64_t>(want.size());
      CHECK(kernels::ops(isa).weigh(logits.data(), n, args, got.data()) == sum);
      CHECK(got == want);
      CHECK(kernels::ops(isa).weigh(logits.data(), n, args, nullptr) == sum);
    }
  }
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

TEST_CASE("the sampler gives the token of the definition") {
  std::mt19937_64 random(11);
  for (const std::int32_t vocab : {1, 2, 17, 511, 513, 3000}) {
    Sampler sampler(vocab);
    for (int round = 0; round < 120; ++round) {
      const auto logits = odd_logits(random, vocab, round);
      const SamplingParams p = any_params(random, vocab);
      const std::vector<std::int32_t> prompt{0, vocab / 2, vocab};
      const std::vector<std::int32_t> generated{vocab - 1, vocab / 3, vocab / 3};
      const TokenHistory history = history_of(prompt, generated);
      INFO("vocab " << vocab << ", round " << round << ", temperature " << p.temperature
                    << ", top_k " << p.top_k << ", top_p " << p.top_p << ", min_p " << p.min_p);
      for (std::uint64_t i = 0; i < 3; ++i) {
        REQUIRE(sampler.sample(logits, p, &history, round, i) ==
                defined_token(logits, p, prompt, generated, round, i));
      }
    }
  }
}

TEST_CASE("a large vocabulary gives the token of the definition on every instruction set") {
  constexpr std::int32_t kVocab = 100000;
  for (const bool flat : {false, true}) {
    auto logits = normal_logits(kVocab, 21, flat ? 2.0F : 3.0F);
    for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i]);  // ties
    if (!flat) logits[777] += 12;
    std::vector<SamplingParams> all(6);
    all[0].top_p = 0.5F;
    all[1].top_k = 40;
    all[1].top_p = 0.9F;
    all[2].top_k = 5000;
    all[3].temperature = 0.6F;
    all[3].top_p = 0.95F;
    all[3].min_p = 0.01F;
    all[4].top_k = 30000;
    all[4].top_p = 0.99F;
    for (const SamplingParams& params : all) {
      const std::int32_t wanted = defined_token(logits, params, {}, {}, 2, 5);
      for (const kernels::Isa isa : kernels::supported_isas()) {
        Sampler sampler(kVocab, kernels::to_string(isa));
        CHECK(sampler.sample(logits, params, nullptr, 2, 5) == wanted);
      }
    }
  }
}
