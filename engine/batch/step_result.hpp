// SPDX-License-Identifier: Apache-2.0
// What a step gave: tokens sampled on the device where it can, on the host otherwise, and
// log-probs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/net/backend.hpp"
#include "model/net/sampler.hpp"

namespace cairn::engine {

/// One step at a time, on the backend's thread. Logits leave a device only where it does not sample
/// or log-probs are wanted. Tokens are the same either way.
class StepResult {
 public:
  /// Ids at and above `vocab` are never produced; `isa` of the host's sampler.
  StepResult(model::Backend& backend, std::int32_t vocab, const std::string& isa);

  /// Before the step: forgets the last one's rows.
  void begin();
  /// A row to sample; its number. What it points to stays as it is until the step has run.
  std::size_t want(const model::SampleRow& row);
  /// Log-probs of this step's rows, or whether they are finite, will be asked for.
  void want_logits() { logits_wanted_ = true; }

  /// Runs it and waits for it; `rows` have logits.
  void run(std::span<const model::StepSlice> slices, std::int32_t rows);

  const model::SampledRow& sampled(std::size_t number) const { return sampled_[number]; }
  /// Whether every logit of a row is a finite number; after want_logits().
  bool finite(std::int32_t row) const;
  /// As Sampler::logprobs; after want_logits().
  model::TokenLogprobs logprobs(std::int32_t row, std::int32_t token, std::int32_t top);

 private:
  std::span<const float> logits_of(std::int32_t row) const;

  model::Backend& backend_;
  std::int32_t vocab_;
  model::Sampler sampler_;
  bool logits_wanted_ = false;
  model::StepLogits logits_;  // in host memory, or none
  std::vector<model::SampleRow> wanted_;
  std::vector<model::SampledRow> sampled_;
};

}  // namespace cairn::engine
