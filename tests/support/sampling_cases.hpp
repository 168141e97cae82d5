// SPDX-License-Identifier: Apache-2.0
// Logits and parameters that samplers are tried with: ties, extremes and what is no number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "model/net/sampler.hpp"

namespace cairn::model::testing {

inline std::vector<float> normal_logits(std::size_t n, std::uint64_t seed, float spread = 2.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

/// A row of a kind that the round tells.
inline std::vector<float> odd_logits(std::mt19937_64& random, std::int32_t vocab, int round) {
  auto logits =
      normal_logits(static_cast<std::size_t>(vocab), random(), round % 2 == 0 ? 3.0F : 0.3F);
  const auto any = [&]() -> float& { return logits[random() % logits.size()]; };
  if (round % 3 == 0) {
    for (float& x : logits) x = std::round(x);  // ties
  }
  if (round % 7 == 0) any() += 20;
  if (round % 10 == 0) {
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    any() = 1;
  }
  if (round % 11 == 0) any() = std::numeric_limits<float>::quiet_NaN();
  if (round % 12 == 0) std::fill(logits.begin(), logits.end(), -2.5F);
  if (round % 23 == 0) any() = std::numeric_limits<float>::infinity();
  return logits;
}

/// Parameters in every combination, the extremes among them.
inline SamplingParams any_params(std::mt19937_64& random, std::int32_t vocab) {
  const auto pick = [&](std::initializer_list<float> values) {
    return values.begin()[random() % values.size()];
  };
  SamplingParams p;
  p.seed = random();
  p.temperature = pick({0.0F, 0.01F, 0.7F, 1.0F, 1.0F, 3.0F, 100.0F, 1e-45F, 1e30F});
  const std::initializer_list<std::int32_t> counts = {0,   0,   1,         2,        40,
                                                      256, 257, vocab - 1, 2 * vocab};
  p.top_k = counts.begin()[random() % counts.size()];
  p.top_p = pick({0.0F, 1e-30F, 0.3F, 0.9F, 0.95F, 0.9999999F, 1.0F, 1.0F, 2.0F});
  p.min_p = pick({0.0F, 0.0F, 1e-12F, 0.02F, 0.5F, 1.0F, 3.0F});
  if (random() % 3 == 0) {
    p.repetition_penalty = pick({0.5F, 1.0F, 1.3F});
    p.frequency_penalty = pick({-2.0F, 0.0F, 0.7F});
    p.presence_penalty = pick({0.0F, 1.5F});
  }
  if (random() % 3 == 0) {
    for (int i = 0; i < 9; ++i) {
      const auto id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab + 2));
      p.logit_bias.emplace_back(id - 1, pick({-100.0F, -1.0F, 0.3F, 5.0F}));
    }
  }
  return p;
}

inline TokenHistory history_of(const std::vector<std::int32_t>& prompt,
                               const std::vector<std::int32_t>& generated) {
  TokenHistory h;
  h.add_prompt(prompt);
  for (const std::int32_t t : generated) h.add_generated(t);
  return h;
}

}  // namespace cairn::model::testing
