// SPDX-License-Identifier: Apache-2.0
#include "model/net/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "kernels/cpu/ops.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kDrawBlock = 1024;   // weights summed together before the draw looks inside
constexpr std::size_t kHeapMax = 256;       // up to here one pass with a small heap beats selection
constexpr std::int32_t kBins = 4096;        // of the nucleus search, over the exponents exp() keeps
constexpr float kLowestExponent = -104.0F;  // below it weights are 0

struct Candidate {
  float value = 0;
  std::int32_t id = 0;
};

// The order of everything that ranks: larger first, ties to the lower id.
bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

float ordered(float x) { return std::isnan(x) ? -kInfinity : x; }

// The `k` first of x by ranks_before, in that order.
void select_top(std::span<const float> x, std::size_t k, std::vector<Candidate>& out) {
  k = std::min(k, x.size());
  out.clear();
  if (k == 0) return;
  if (k > kHeapMax) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      out.push_back({ordered(x[i]), static_cast<std::int32_t>(i)});
    }
    const auto end = out.begin() + static_cast<std::ptrdiff_t>(k);
    std::nth_element(out.begin(), end - 1, out.end(), ranks_before);
    out.resize(k);
  } else {
    // A heap with the worst of the best on top. Ids ascend, so an equal value never displaces.
    for (std::size_t i = 0; i < k; ++i) {
      out.push_back({ordered(x[i]), static_cast<std::int32_t>(i)});
    }
    std::make_heap(out.begin(), out.end(), ranks_before);
    for (std::size_t i = k; i < x.size(); ++i) {
      if (!(x[i] > out.front().value)) continue;
      std::pop_heap(out.begin(), out.end(), ranks_before);
      out.back() = {x[i], static_cast<std::int32_t>(i)};
      std::push_heap(out.begin(), out.end(), ranks_before);
    }
  }
  std::sort(out.begin(), out.end(), ranks_before);
}

}  // namespace

bool has_penalty(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

void TokenHistory::add_prompt(std::span<const std::int32_t> tokens) {
  for (const std::int32_t t : tokens) seen_[t].in_prompt = true;
}

void TokenHistory::add_generated(std::int32_t token) { ++seen_[token].generated; }

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return c;
}

double sampling_uniform(std::uint64_t seed, std::int32_t choice, std::uint64_t index) {
  const auto words =
      philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                  static_cast<std::uint32_t>(choice), 0},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t bits = static_cast<std::uint64_t>(words[1]) << 32 | words[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

struct Sampler::Impl {
  Impl(std::int32_t vocab, const std::string& isa)
      : ops(ops_for(isa)), weights(static_cast<std::size_t>(vocab)) {}

  std::span<const float> adjusted_logits(std::span<const float> logits,
                                         const SamplingParams& params, const TokenHistory* history);
  std::int32_t sample_top_k(std::span<const float> x, const SamplingParams& params, float max,
                            double uniform);
  std::int32_t sample_all(std::span<const float> x, const SamplingParams& params, float max,
                          double uniform);
  void keep_nucleus(float top_p);
  std::int32_t draw(double uniform) const;

  const kernels::Ops& ops;
  std::vector<float> adjusted;   // [sampled_vocab]
  std::vector<float> weights;    // [sampled_vocab], exp((x - max) / temperature)
  std::vector<float> exponents;  // [sampled_vocab], of the weights
  std::vector<double> bins;      // [kBins] sums of weights
  std::vector<Candidate> candidates;
};

std::span<const float> Sampler::Impl::adjusted_logits(std::span<const float> logits,
                                                      const SamplingParams& params,
                                                      const TokenHistory* history) {
  const bool penalise = history != nullptr && has_penalty(params);
  if (params.logit_bias.empty() && !penalise) return logits;
  adjusted.assign(logits.begin(), logits.end());
  const auto inside = [&](std::int32_t id) {
    return id >= 0 && static_cast<std::size_t>(id) < adjusted.size();
  };
  for (const auto& [id, bias] : params.logit_bias) {
    if (inside(id)) adjusted[static_cast<std::size_t>(id)] += bias;
  }
  if (!penalise) return adjusted;
  for (const auto& [id, seen] : history->seen()) {
    if (!inside(id)) continue;
    float& x = adjusted[static_cast<std::size_t>(id)];
    x = x > 0 ? x / params.repetition_penalty : x * params.repetition_penalty;
    x -= params.frequency_penalty * static_cast<float>(seen.generated);
    if (seen.generated > 0) x -= params.presence_penalty;
  }
  return adjusted;
}

std::int32_t Sampler::Impl::sample_top_k(std::span<const float> x, const SamplingParams& params,
                                         float max, double uniform) {
  select_top(x, static_cast<std::size_t>(params.top_k), candidates);
  const float inverse = 1.0F / params.temperature;
  double total = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    weights[i] = kernels::exp_f32((candidates[i].value - max) * inverse);
    total += weights[i];
  }
  std::size_t kept = candidates.size();
  if (params.top_p < 1) {
    double sum = 0;
    for (kept = 0; kept < candidates.size() && (kept == 0 || sum < params.top_p * total); ++kept) {
      sum += weights[kept];
    }
    total = sum;
  }
  // Weights descend and the first is 1, so min-p cuts the tail.
  while (kept > 1 && weights[kept - 1] < params.min_p) total -= weights[--kept];
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    sum += weights[i];
    if (sum > uniform * total) return candidates[i].id;
  }
  return candidates.front().id;
}

// Zeroes the weights outside the shortest run of most probable ids whose sum reaches top_p. The
// run's end is found by summing weights in bins of their exponent and ranking only the bin where
// the sum crosses.
void Sampler::Impl::keep_nucleus(float top_p) {
  constexpr float kBinsPerUnit = static_cast<float>(kBins) / kLowestExponent;
  const auto bin_of = [](float exponent) {  // 0: the maximum's
    return std::min(static_cast<std::int32_t>(exponent * kBinsPerUnit), kBins - 1);
  };
  bins.assign(static_cast<std::size_t>(kBins), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) bins[static_cast<std::size_t>(bin_of(exponents[i]))] += weights[i];
  }
  const double target = top_p * std::accumulate(bins.begin(), bins.end(), 0.0);
  double sum = 0;
  std::int32_t crossing = 0;
  while (crossing + 1 < kBins && sum + bins[static_cast<std::size_t>(crossing)] < target) {
    sum += bins[static_cast<std::size_t>(crossing++)];
  }
  candidates.clear();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0)) continue;
    const std::int32_t bin = bin_of(exponents[i]);
    if (bin < crossing) continue;
    if (bin == crossing) candidates.push_back({exponents[i], static_cast<std::int32_t>(i)});
    weights[i] = bin == crossing ? weights[i] : 0;
  }
  std::sort(candidates.begin(), candidates.end(), ranks_before);
  bool any = sum > 0;
  for (const Candidate& c : candidates) {
    float& w = weights[static_cast<std::size_t>(c.id)];
    const bool keep = !any || sum < target;
    any = true;
    sum += w;
    if (!keep) w = 0;
  }
}

std::int32_t Sampler::Impl::draw(double uniform) const {
  const auto n = static_cast<std::int64_t>(weights.size());
  const auto block_sum = [&](std::int64_t begin) {
    return ops.sum(weights.data() + begin, std::min(kDrawBlock, n - begin));
  };
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kDrawBlock) total += block_sum(begin);
  const double target = uniform * total;
  double before = 0;
  std::int64_t last = 0;  // an id with weight, should rounding carry the sum past the end
  for (std::int64_t begin = 0; begin < n; begin += kDrawBlock) {
    const double after = before + block_sum(begin);
    if (after > target) {
      const std::int64_t end = std::min(n, begin + kDrawBlock);
      double sum = before;
      for (std::int64_t i = begin; i < end; ++i) {
        const float w = weights[static_cast<std::size_t>(i)];
        sum += w;
        if (w > 0) last = i;
        if (w > 0 && sum > target) break;
      }
      break;
    }
    before = after;
  }
  return static_cast<std::int32_t>(last);
}

std::int32_t Sampler::Impl::sample_all(std::span<const float> x, const SamplingParams& params,
                                       float max, double uniform) {
  const float inverse = 1.0F / params.temperature;
  const auto n = static_cast<std::int64_t>(x.size());
  exponents.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) exponents[i] = (ordered(x[i]) - max) * inverse;
  ops.exp(exponents.data(), n, weights.data());
  if (params.top_p < 1) keep_nucleus(params.top_p);
  if (params.min_p > 0) {
    for (float& w : weights) w = w < std::min(params.min_p, 1.0F) ? 0 : w;
  }
  return draw(uniform);
}

Sampler::Sampler(std::int32_t sampled_vocab, const std::string& isa) {
  check(sampled_vocab > 0, "Sampler: no ids to sample from");
  impl_ = std::make_unique<Impl>(sampled_vocab, isa);
}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

std::int32_t Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                             const TokenHistory* history, std::int32_t choice,
                             std::uint64_t index) {
  const std::size_t vocab = impl_->weights.size();
  check(logits.size() >= vocab, "Sampler: a row is shorter than the vocabulary");
  const std::span<const float> x = impl_->adjusted_logits(logits.first(vocab), params, history);
  const auto best =
      static_cast<std::int32_t>(impl_->ops.argmax(x.data(), static_cast<std::int64_t>(vocab)));
  const float max = x[static_cast<std::size_t>(best)];
  // Without a finite maximum or a finite 1 / temperature there is no distribution to draw from.
  if (!(params.temperature > 0) || !std::isfinite(max) || !std::isfinite(1 / params.temperature)) {
    return best;
  }
  const double uniform = sampling_uniform(params.seed, choice, index);
  const bool filtered = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < vocab;
  return filtered ? impl_->sample_top_k(x, params, max, uniform)
                  : impl_->sample_all(x, params, max, uniform);
}

TokenLogprobs Sampler::logprobs(std::span<const float> logits, std::int32_t token,
                                std::int32_t top) {
  const std::size_t vocab = impl_->weights.size();
  check(logits.size() >= vocab, "Sampler: a row is shorter than the vocabulary");
  const std::span<const float> x = logits.first(vocab);
  const auto n = static_cast<std::int64_t>(vocab);
  const float max = x[static_cast<std::size_t>(impl_->ops.argmax(x.data(), n))];
  const float log_sum = kernels::log_f32(impl_->ops.sum_exp(x.data(), n, max, 1.0F));
  const bool inside = token >= 0 && static_cast<std::size_t>(token) < vocab;
  TokenLogprobs out;
  out.chosen = {token, inside ? x[static_cast<std::size_t>(token)] - max - log_sum : -kInfinity};
  select_top(x, static_cast<std::size_t>(std::max(0, top)), impl_->candidates);
  for (const Candidate& c : impl_->candidates) {
    out.top.push_back({c.id, c.value - max - log_sum});
  }
  return out;
}

}  // namespace cairn::model
