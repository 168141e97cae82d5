// SPDX-License-Identifier: Apache-2.0
#include "model/net/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/sampling.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::model {
namespace {

using kernels::rank_id;
using kernels::rank_logit;
using kernels::rank_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Ids whose maximum and sum are kept, so that most need not be looked at one by one.
constexpr std::int64_t kBlock = 512;
constexpr std::size_t kHeapMax = 256;     // up to here one pass with a small heap beats bins
constexpr float kLikelyExponent = -8.0F;  // a nucleus seldom reaches below

// What is left to draw from: logits of at least `from` with weights (WeightArgs) and a rank of at
// least `cut`, whose logit is `from`.
struct Kept {
  kernels::WeightArgs weights;
  std::uint64_t cut = 0;

  void cut_at(std::uint64_t rank) {
    cut = rank;
    weights.from = rank_logit(rank);
  }
  std::uint64_t weight(float x) const {
    const float e = kernels::weight_exponent(x, weights.max, weights.inverse_temperature);
    return kernels::weight_of(kernels::exp_f32(e), weights.min_p);
  }
};

// The part of x that block b is.
std::span<const float> block_of(std::span<const float> x, std::size_t b) {
  const std::size_t begin = b * kBlock;
  return x.subspan(begin, std::min<std::size_t>(kBlock, x.size() - begin));
}

// The `k` highest ranks of x, falling. `block_max` may be empty: nothing is known of the blocks.
void select_top(std::span<const float> x, std::span<const float> block_max, std::size_t k,
                std::vector<std::uint64_t>& out) {
  out.clear();
  if (k == 0) return;
  // A heap with the worst of the best on top. Most logits are below it, which is quickly seen.
  float worst = -kInfinity;
  const std::size_t blocks = (x.size() + kBlock - 1) / kBlock;
  for (std::size_t b = 0; b < blocks; ++b) {
    const bool full = out.size() == k;
    if (full && b < block_max.size() && block_max[b] <= worst) continue;
    auto id = static_cast<std::int32_t>(b * kBlock);
    for (const float value : block_of(x, b)) {
      const std::int32_t at = id++;
      if (out.size() == k) {
        if (value <= worst) continue;  // ids ascend, so an equal value never displaces
        const std::uint64_t rank = rank_of(value, at);
        if (rank < out.front()) continue;
        std::pop_heap(out.begin(), out.end(), std::greater<>());
        out.back() = rank;
      } else {
        out.push_back(rank_of(value, at));
      }
      std::push_heap(out.begin(), out.end(), std::greater<>());
      worst = rank_logit(out.front());
    }
  }
  std::sort(out.begin(), out.end(), std::greater<>());
}

}  // namespace

bool has_penalty(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

TokenHistory::Seen& TokenHistory::entry(std::int32_t token) {
  const auto [it, added] = places_.try_emplace(token, seen_.size());
  if (added) seen_.push_back({token, 0});
  return seen_[it->second];
}

void TokenHistory::add_prompt(std::span<const std::int32_t> tokens) {
  for (const std::int32_t t : tokens) entry(t);
}

void TokenHistory::add_generated(std::int32_t token) { ++entry(token).generated; }

struct Sampler::Impl {
  Impl(std::int32_t vocab, const std::string& isa)
      : ops(ops_for(isa)), weights(static_cast<std::size_t>(vocab)) {}

  std::span<const float> adjusted_logits(std::span<const float> logits,
                                         const SamplingParams& params, const TokenHistory* history);
  std::int32_t find_best(std::span<const float> x, bool by_blocks);
  std::int32_t sample_list(Kept kept, const SamplingParams& params, std::uint64_t random);
  Kept cut(std::span<const float> x, Kept kept, const SamplingParams& params, bool top_k);
  void cut_nucleus(std::span<const float> x, Kept& kept, float likely, std::uint64_t fraction);
  template <class Value>
  std::uint64_t run_end(std::span<const float> x, const Kept& kept, float from,
                        std::uint64_t target, const Value& value);
  void weigh(std::span<const float> x, const Kept& kept, bool store);
  std::uint64_t total() const;
  std::int32_t draw(std::span<const float> x, const Kept& kept, std::uint64_t random);

  const kernels::Ops& ops;
  std::vector<float> adjusted;            // [sampled_vocab]
  std::vector<float> weights;             // [sampled_vocab] whole numbers
  std::vector<float> block_max;           // of each block of x; empty: not known
  std::vector<std::uint64_t> block_sums;  // of each block's weights
  std::vector<std::uint64_t> ranks;       // candidates; after a cut by bins those of its bin
  std::vector<std::uint64_t> bins;        // [kRankBins] sums over candidates
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
  for (const auto& [id, generated] : history->seen()) {
    if (!inside(id)) continue;
    float& x = adjusted[static_cast<std::size_t>(id)];
    x = kernels::penalised(x, params.repetition_penalty, params.frequency_penalty,
                           params.presence_penalty, generated);
  }
  return adjusted;
}

std::int32_t Sampler::Impl::find_best(std::span<const float> x, bool by_blocks) {
  block_max.clear();
  if (!by_blocks) return static_cast<std::int32_t>(ops.argmax(x.data(), std::ssize(x)));
  std::uint64_t best = 0;
  for (std::size_t b = 0; b * kBlock < x.size(); ++b) {
    const std::span<const float> block = block_of(x, b);
    const auto at = static_cast<std::size_t>(ops.argmax(block.data(), std::ssize(block)));
    block_max.push_back(block[at]);
    best = std::max(best, rank_of(block[at], static_cast<std::int32_t>(b * kBlock + at)));
  }
  return rank_id(best);
}

// Draws from the candidates, whose ranks fall.
std::int32_t Sampler::Impl::sample_list(Kept kept, const SamplingParams& params,
                                        std::uint64_t random) {
  if (params.top_p < 1) {
    std::uint64_t sum = 0;
    for (const std::uint64_t rank : ranks) sum += kept.weight(rank_logit(rank));
    const std::uint64_t target =
        kernels::nucleus_target(sum, kernels::share_fraction(params.top_p));
    std::size_t count = 0;
    for (sum = 0; sum < target; ++count) sum += kept.weight(rank_logit(ranks[count]));
    ranks.resize(count);
  }
  kept.weights.min_p = params.min_p;
  std::sort(ranks.begin(), ranks.end(),
            [](std::uint64_t a, std::uint64_t b) { return rank_id(a) < rank_id(b); });
  std::uint64_t sum = 0;
  for (const std::uint64_t rank : ranks) sum += kept.weight(rank_logit(rank));
  std::uint64_t left = kernels::multiply_high(sum, random);
  std::size_t i = 0;
  for (std::uint64_t w = 0; left >= (w = kept.weight(rank_logit(ranks[i]))); ++i) left -= w;
  return rank_id(ranks[i]);
}

// The last rank of the shortest run of highest ranks whose values sum to `target`, seen from logits
// of at least `from`; 0 when all of them do not. Sums of bins tell the bin where the run ends; only
// its ranks, which are left in `ranks`, are put in order.
template <class Value>
std::uint64_t Sampler::Impl::run_end(std::span<const float> x, const Kept& kept, float from,
                                     std::uint64_t target, const Value& value) {
  const float max = kept.weights.max;
  const auto each = [&](const auto& body) {
    for (std::size_t b = 0; b < block_max.size(); ++b) {
      if (!(block_max[b] >= from)) continue;
      std::size_t id = b * kBlock;
      for (const float v : block_of(x, b)) {
        if (v >= from) body(v, id);
        ++id;
      }
    }
  };
  bins.assign(kernels::kRankBins, 0);
  each([&](float v, std::size_t id) {
    bins[static_cast<std::size_t>(kernels::rank_bin(v, max))] += value(id);
  });
  std::uint64_t sum = 0;
  std::int32_t crossing = 0;
  while (crossing < kernels::kRankBins && sum + bins[static_cast<std::size_t>(crossing)] < target) {
    sum += bins[static_cast<std::size_t>(crossing++)];
  }
  if (crossing == kernels::kRankBins) return 0;
  ranks.clear();
  each([&](float v, std::size_t id) {
    if (kernels::rank_bin(v, max) != crossing) return;
    ranks.push_back(rank_of(v, static_cast<std::int32_t>(id)));
  });
  auto first = ranks.begin();
  auto last = ranks.end();
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, std::greater<>());
    std::uint64_t half = sum;
    for (auto r = first; r < middle; ++r) half += value(static_cast<std::size_t>(rank_id(*r)));
    if (half >= target) {
      last = middle;
    } else {
      sum = half;
      first = middle;
    }
  }
  return *first;
}

// The sums of blocks, and the weights themselves when they are to be looked at.
void Sampler::Impl::weigh(std::span<const float> x, const Kept& kept, bool store) {
  block_sums.clear();
  for (std::size_t b = 0; b * kBlock < x.size(); ++b) {
    const std::span<const float> block = block_of(x, b);
    const bool below = !block_max.empty() && !(block_max[b] >= kept.weights.from);
    block_sums.push_back(below ? 0
                               : ops.weigh(block.data(), std::ssize(block), kept.weights,
                                           store ? weights.data() + b * kBlock : nullptr));
  }
  if (kept.cut == 0) return;
  for (const std::uint64_t rank : ranks) {  // equals of the last id kept that come after it
    if (rank >= kept.cut || rank_logit(rank) != kept.weights.from) continue;
    const auto id = static_cast<std::size_t>(rank_id(rank));
    block_sums[id / kBlock] -= kept.weight(kept.weights.from);
    weights[id] = 0;
  }
}

std::uint64_t Sampler::Impl::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t s : block_sums) sum += s;
  return sum;
}

void Sampler::Impl::cut_nucleus(std::span<const float> x, Kept& kept, float likely,
                                std::uint64_t fraction) {
  weigh(x, kept, true);
  const std::uint64_t target = kernels::nucleus_target(total(), fraction);
  const auto value = [this](std::size_t id) {  // by way of a signed number: one instruction
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(weights[id]));
  };
  // Where few blocks reach `likely`, the rest need not be looked at.
  const auto blocks =
      std::count_if(block_max.begin(), block_max.end(), [likely](float m) { return m >= likely; });
  std::uint64_t rank = 0;
  if (blocks < std::ssize(block_max) / 4) {
    rank = run_end(x, kept, std::max(kept.weights.from, likely), target, value);
  }
  if (rank == 0) rank = run_end(x, kept, kept.weights.from, target, value);
  kept.cut_at(rank);
}

// Top-k beyond a list, and top-p. Block maxima are known.
Kept Sampler::Impl::cut(std::span<const float> x, Kept kept, const SamplingParams& params,
                        bool top_k) {
  if (top_k) {
    const auto k = static_cast<std::uint64_t>(params.top_k);
    const auto one = [](std::size_t) { return std::uint64_t{1}; };
    const std::uint64_t rank = run_end(x, kept, -kInfinity, k, one);
    if (rank != 0) kept.cut_at(rank);  // fewer than k are numbers otherwise
  }
  if (params.top_p < 1) {
    const float likely = kept.weights.max + kLikelyExponent * params.temperature;
    cut_nucleus(x, kept, likely, kernels::share_fraction(params.top_p));
  }
  return kept;
}

std::int32_t Sampler::Impl::draw(std::span<const float> x, const Kept& kept, std::uint64_t random) {
  weigh(x, kept, false);
  std::uint64_t left = kernels::multiply_high(total(), random);
  std::size_t b = 0;
  while (left >= block_sums[b]) left -= block_sums[b++];
  const std::span<const float> block = block_of(x, b);
  ops.weigh(block.data(), std::ssize(block), kept.weights, weights.data());
  auto id = static_cast<std::int32_t>(b * kBlock);
  for (std::size_t i = 0;; ++i, ++id) {
    if (rank_of(block[i], id) < kept.cut) continue;
    const auto w = static_cast<std::uint64_t>(weights[i]);
    if (left < w) return id;
    left -= w;
  }
}

Sampler::Sampler(std::int32_t sampled_vocab, const std::string& isa) {
  check(sampled_vocab > 0, "Sampler: no ids to sample from");
  check(sampled_vocab <= kernels::kMaxSampledVocab, "Sampler: weights of so many ids overflow");
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
  const bool top_k = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < vocab;
  const bool cuts = top_k || params.top_p < 1;
  const float inverse = params.temperature > 0 ? 1.0F / params.temperature : 0.0F;
  const std::int32_t best = impl_->find_best(x, inverse > 0 && cuts);
  const float max = x[static_cast<std::size_t>(best)];
  if (!kernels::draws(inverse, max)) return best;

  const std::uint64_t random = kernels::sampling_random(params.seed, choice, index);
  Kept kept;
  kept.weights = {max, inverse, -kInfinity, 0.0F};
  if (top_k && static_cast<std::size_t>(params.top_k) <= kHeapMax) {
    select_top(x, impl_->block_max, static_cast<std::size_t>(params.top_k), impl_->ranks);
    return impl_->sample_list(kept, params, random);
  }
  if (cuts) kept = impl_->cut(x, kept, params, top_k);
  kept.weights.min_p = params.min_p;
  return impl_->draw(x, kept, random);
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
  const std::size_t count = std::min(vocab, static_cast<std::size_t>(std::max(0, top)));
  select_top(x, {}, count, impl_->ranks);
  for (const std::uint64_t rank : impl_->ranks) {
    out.top.push_back({rank_id(rank), x[static_cast<std::size_t>(rank_id(rank))] - max - log_sum});
  }
  return out;
}

}  // namespace cairn::model
