// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/batch/batch_impl.hpp"

namespace cairn::engine {
namespace {

using Phase = Sequence::Phase;

// Prompt rows with logits in one step, over all prompts: each is a vocabulary of floats.
constexpr std::int32_t kLogprobRows = 64;
constexpr std::int32_t kSettled = 4;  // tokens of an answer whose reader minds a pause

}  // namespace

void BatchLoop::Impl::plan(StepReport& report) {
  parts.clear();
  shape = {};
  for (const auto& r : running) {
    if (r->sequence.phase() != Phase::decoding || r->sequence.rows_covered() == 0) continue;
    parts.push_back({.running = r.get(), .rows = 1});
    ++shape.decode_rows;
    shape.decode_context += r->sequence.progress();
  }
  report.decode_rows = shape.decode_rows;
  claim_prompts();
  // One row at least, so that a full house of decoding sequences does not stop every prompt.
  add_prompts(std::max(options.max_step_tokens - report.decode_rows, 1), report);
}

// Whether the step is to be short for those that decode: not when all of them have only begun and
// one step is all that the prompts take. Requests that come together then start together.
bool BatchLoop::Impl::keeps_pace(std::int32_t budget) const {
  if (!pace.cuts() || shape.decode_rows == 0) return false;
  const bool settled = std::any_of(parts.begin(), parts.end(), [](const Part& part) {
    return part.running->sequence.generated() >= kSettled;
  });
  std::int64_t left = 0;
  for (const PrefillClaim& claim : claims) left += claim.left;
  return settled || left > budget;
}

void BatchLoop::Impl::claim_prompts() {
  prompts.clear();
  claims.clear();
  std::int32_t logprob_rows = kLogprobRows;  // the oldest take them
  for (const auto& r : running) {
    const Sequence& s = r->sequence;
    if (s.phase() != Phase::prefilling) continue;
    std::int32_t rows = std::min(s.prefill_left(), s.rows_covered());
    if (wants_prompt_logprobs(s)) {
      rows = std::min(rows, logprob_rows);
      logprob_rows -= rows;
    }
    prompts.push_back(r.get());
    claims.push_back({rows, s.prefill_left()});
  }
}

// The step with so many rows left for prompts.
StepShape BatchLoop::Impl::shape_with(std::int32_t budget) {
  StepShape with = shape;
  const auto shares = share.split(claims, budget);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const double rows = shares[i];
    with.prefill_rows += shares[i];
    with.prefill_context += rows * prompts[i]->sequence.progress() + rows * (rows - 1) / 2;
  }
  return with;
}

void BatchLoop::Impl::add_prompts(std::int32_t budget, StepReport& report) {
  const StepShape full = shape_with(budget);
  if (keeps_pace(budget)) {
    budget = pace.rows(full.prefill_rows, [this](std::int32_t rows) { return shape_with(rows); });
  }
  shape = shape_with(budget);
  report.prefill_rows = shape.prefill_rows;
  report.prefill_context = shape.prefill_context;
  report.rows_held_back = full.prefill_rows - shape.prefill_rows;
  const auto shares = share.split(claims, budget);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (shares[i] > 0) parts.push_back({.running = prompts[i], .rows = shares[i]});
  }
}

}  // namespace cairn::engine
