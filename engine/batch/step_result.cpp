// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/step_result.hpp"

#include <bit>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

// Integers, because a loop that ors them is vectorised and one that adds floats is not.
bool all_finite(std::span<const float> row) {
  std::uint32_t bad = 0;
  for (const float x : row) {
    bad |= (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) == 0x7F800000U ? 1U : 0U;
  }
  return bad == 0;
}

}  // namespace

StepResult::StepResult(model::Backend& backend, std::int32_t vocab, const std::string& isa)
    : backend_(backend), vocab_(vocab), sampler_(vocab, isa) {}

void StepResult::begin() {
  logits_wanted_ = false;
  wanted_.clear();
  sampled_.clear();
}

std::size_t StepResult::want(const model::SampleRow& row) {
  wanted_.push_back(row);
  return wanted_.size() - 1;
}

void StepResult::run(std::span<const model::StepSlice> slices, std::int32_t rows) {
  logits_ = backend_.step(slices);
  check(rows <= logits_.rows, "a step returned fewer logits than were asked for");
  // Without rows, too: a device's times and faults belong to the step that they happen in.
  const bool on_device = backend_.sample(wanted_, vocab_, sampled_);
  if (logits_.data == nullptr && (!on_device || logits_wanted_)) logits_ = backend_.read_logits();
  if (on_device) {
    check(sampled_.size() == wanted_.size(), "a device sampled another number of rows");
    return;
  }
  for (const model::SampleRow& row : wanted_) {
    model::SampledRow& out = sampled_.emplace_back();
    const std::span<const float> logits = logits_of(row.row);
    out.finite = all_finite(logits);
    if (!out.finite) continue;
    out.token = sampler_.sample(logits, *row.params, row.history, row.choice, row.index);
  }
}

bool StepResult::finite(std::int32_t row) const { return all_finite(logits_of(row)); }

model::TokenLogprobs StepResult::logprobs(std::int32_t row, std::int32_t token, std::int32_t top) {
  return sampler_.logprobs(logits_of(row), token, top);
}

std::span<const float> StepResult::logits_of(std::int32_t row) const {
  check(logits_.data != nullptr && row >= 0 && row < logits_.rows, "logits that nobody asked for");
  return logits_.row(row).first(static_cast<std::size_t>(vocab_));
}

}  // namespace cairn::engine
