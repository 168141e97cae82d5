// SPDX-License-Identifier: Apache-2.0
// From a row of logits to a token. The answer depends on the row, the parameters, the history, the
// choice and the token's index only: not on the batch, the threads, the device or what else is
// running. docs/order.md defines it to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::model {

/// Applied in this order: logit bias, repetition, frequency and presence penalty, temperature,
/// top-k, top-p, min-p. Each filter looks at the probabilities that the one before it left,
/// renormalised. Values are validated by who fills them in.
struct SamplingParams {
  float temperature = 1;   // 0: greedy, ties to the lowest id; the filters then change nothing
  std::int32_t top_k = 0;  // 0: all
  float top_p = 1;  // the shortest most probable run whose sum reaches it, at least one token
  float min_p = 0;  // tokens below this share of the most probable one are dropped
  float repetition_penalty =
      1;  // ids of prompt and answer: positive logits are divided, others multiplied
  float presence_penalty = 0;   // subtracted once for an id of the answer
  float frequency_penalty = 0;  // subtracted for each time it is in the answer
  std::uint64_t seed = 0;
  std::vector<std::pair<std::int32_t, float>>
      logit_bias;  // added; ids outside the vocabulary are ignored
};

/// Whether a penalty is set: what is sampled then depends on the tokens before it.
bool has_penalty(const SamplingParams& params);

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
};

/// Log-softmax of the raw logits over the ids that may be produced (bias, penalties, temperature
/// and filters do not enter), as OpenAI reports it.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending, ties by id
};

/// How often each id occurred in a sequence. One per sequence; not thread-safe.
class TokenHistory {
 public:
  void add_prompt(std::span<const std::int32_t> tokens);
  void add_generated(std::int32_t token);

  struct Seen {
    std::int32_t id = 0;
    std::int32_t generated = 0;  // times; 0: in the prompt only
  };
  /// Each id once, as they came.
  std::span<const Seen> seen() const { return seen_; }

 private:
  Seen& entry(std::int32_t token);

  std::vector<Seen> seen_;
  std::unordered_map<std::int32_t, std::size_t> places_;
};

/// Samples rows of one model. Holds scratch of one vocabulary: one per thread, not thread-safe.
class Sampler {
 public:
  /// Ids at and above `sampled_vocab` are never produced nor reported. `isa` as in CpuOptions.
  explicit Sampler(std::int32_t sampled_vocab, const std::string& isa = "");
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  /// `logits` has at least sampled_vocab entries; `choice` and `index` (of the token within the
  /// answer) pick the random number. `history` may be null when no penalty is set.
  std::int32_t sample(std::span<const float> logits, const SamplingParams& params,
                      const TokenHistory* history, std::int32_t choice, std::uint64_t index);

  /// Log-prob of `token` and of the `top` most probable ids.
  TokenLogprobs logprobs(std::span<const float> logits, std::int32_t token, std::int32_t top);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::model
