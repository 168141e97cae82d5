// SPDX-License-Identifier: Apache-2.0
// The batch loop's inside, for its own files: batch_loop.cpp runs steps, batch_plan.cpp decides who
// has how many rows in one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "engine/batch/batch_loop.hpp"
#include "engine/batch/sequence.hpp"
#include "engine/batch/share.hpp"
#include "engine/batch/step_pace.hpp"
#include "engine/batch/step_result.hpp"

namespace cairn::engine {

using StepClock = std::chrono::steady_clock;

/// Every row of its chunks then has logits.
inline bool wants_prompt_logprobs(const Sequence& s) {
  return s.spec().prompt_logprobs && s.spec().generated == 0 &&
         s.phase() == Sequence::Phase::prefilling;
}

/// One that was admitted.
struct Running {
  explicit Running(SequenceSpec spec) : sequence(std::move(spec)) {}
  Sequence sequence;
  StepClock::time_point started{};    // its first step
  StepClock::time_point prefilled{};  // end of its prompt
};

/// A sequence's rows in the step that is being built.
struct Part {
  Running* running = nullptr;
  std::int32_t rows = 0;
  std::int32_t first_logits = 0;  // in the step's logits
  std::int32_t logits = 0;        // rows of them
  bool samples = false;           // from the last of them
  std::size_t sample = 0;         // its number in the step's result
};

struct BatchLoop::Impl {
  model::Backend& backend;
  BatchOptions options;
  std::int32_t vocab;  // sampled
  StepResult result;
  std::vector<std::unique_ptr<Running>> running;  // oldest first
  bool stalled = false;                           // the last step could run nothing
  std::int64_t restores = 0;                      // so far

  // Of the step being built; members so that a step allocates nothing of its own.
  std::vector<Part> parts;
  std::vector<model::StepSlice> slices;
  std::vector<Running*> prompts;
  std::vector<PrefillClaim> claims;
  PrefillShare share;
  StepPace pace;
  StepShape shape;

  Impl(model::Backend& b, BatchOptions o)
      : backend(b),
        options(std::move(o)),
        vocab(options.sampled_vocab > 0      ? options.sampled_vocab
              : b.config().sampled_vocab > 0 ? b.config().sampled_vocab
                                             : b.config().vocab_size),
        result(b, vocab, options.isa),
        pace(options.max_step_seconds) {
    check(options.max_step_tokens > 0 && options.max_running > 0, "a batch without room");
    check(options.max_step_seconds >= 0, "steps shorter than nothing");
  }

  StepClock::time_point now() const { return options.now ? options.now() : StepClock::now(); }

  Running* find(SequenceId id) {
    for (const auto& r : running) {
      if (r->sequence.id() == id) return r.get();
    }
    return nullptr;
  }

  void end_cancelled(StepReport& report);
  void plan(StepReport& report);
  bool keeps_pace(std::int32_t budget) const;
  void claim_prompts();
  StepShape shape_with(std::int32_t budget);
  void add_prompts(std::int32_t budget, StepReport& report);
  void restore(StepReport& report);
  void run(StepReport& report);
  model::StepSlice ask_for(Part& part, std::int32_t first_logits);
  void take_result(const Part& part, StepClock::time_point now, StepReport& report);
  bool finite(const Part& part) const;
  void report_prompt(const Part& part, StepReport& report);
  void append(const Part& part, StepReport& report);
  void finish(Running& r, EndReason reason, StepClock::time_point now, StepReport& report);
  void fail(Running& r, StepClock::time_point now, StepReport& report);
  void preempt_youngest(StepReport& report);
  template <class Take>
  void distribute(std::int32_t blocks, Take&& take);
  std::int32_t blocks_wanted() const;
  void drop_ended();
};

}  // namespace cairn::engine
