// SPDX-License-Identifier: Apache-2.0
// Continuous batching without actors: admitted sequences, one model step at a time. Owned by one
// thread (the executor).
//
// A step has one row for every decoding sequence, then prefill chunks. Half of the rows left go to
// the oldest prompts, half to those with the least left to run: the oldest always advances, a short
// prompt is not held up by a giant one. With max_step_seconds fewer rows are left while somebody
// decodes. What a sequence computes never depends on its share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "model/net/backend.hpp"
#include "model/net/sampler.hpp"

namespace cairn::engine {

struct BatchOptions {
  std::int32_t max_step_tokens = 512;  // rows of a step; decode rows and one of prefill always fit
  std::int32_t max_running = 16;
  std::int32_t sampled_vocab = 0;  // ids below it may be produced; 0: the backend's config says
  std::string isa = {};            // of the sampler, as in CpuOptions
  // That states lie in; null: the host's memory. A device copies while the host goes on, so that
  // timing a restore there means waiting before and after it: every kRestoresPerTimed-th is.
  model::Arena* arena = nullptr;
  // A step with decode rows has so many prefill rows that it is expected to end in time; 0: as many
  // as fit. Prefill advances whatever the target (engine/batch/step_pace.hpp), and prompts that end
  // in one step beside answers of a few tokens are not held back.
  double max_step_seconds = 0;
  // What steps are timed by; empty: the steady clock.
  std::function<std::chrono::steady_clock::time_point()> now = {};
};
inline constexpr std::int64_t kRestoresPerTimed = 16;

/// A sequence as admitted. For a preempted one `tokens` is prompt + what was generated, and
/// `generated` says how many of them are its own: sampling goes on with the same counters, so the
/// answer's bits do not change, and its prompt's log-probs, reported before, are not repeated.
struct SequenceSpec {
  SequenceId id = 0;
  TokenSeq tokens;
  std::int32_t generated = 0;
  std::int32_t max_new = 1;         // in all, the generated ones included; 0 ends after the prompt
  std::int32_t context_length = 0;  // prompt and answer; 0: no limit
  model::SamplingParams sampling;
  std::int32_t choice = 0;  // index of the choice: part of the random stream's key
  // Ending tokens: eos (not with ignore_eos) and the request's own.
  std::vector<std::int32_t> stop_ids;
  std::int32_t logprobs = -1;
  bool prompt_logprobs = false;
  Lease lease;
};

struct SampledToken {
  SequenceId id = 0;
  std::int32_t token = 0;
  bool stop = false;  // one of stop_ids: counted as generated, but no part of the answer's text
  model::TokenLogprobs logprobs;  // filled when asked for
};

/// Log-probs of prompt tokens, position ascending, as chunks of the prompt are computed.
struct PromptLogprobs {
  SequenceId id = 0;
  std::int32_t position = 0;  // of the first entry: token `position` given those before it
  std::vector<model::TokenLogprobs> entries;
};

enum class EndReason : std::uint8_t { stop, length, cancelled, failed };

struct EndedSequence {
  SequenceId id = 0;
  EndReason reason = EndReason::stop;
  Error error;              // failed
  bool in_prefill = false;  // where a cancel caught it
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

/// Memory ran out and this one was the youngest: its lease is gone, look it up again with `tokens`.
/// The blocks that only it held went to the older ones that waited. Never one that is prefilling
/// within its reservation.
struct PreemptedSequence {
  SequenceId id = 0;
  TokenSeq tokens;
  std::int32_t generated = 0;
};

struct StepReport {
  std::vector<SampledToken> tokens;  // in batch order
  std::vector<PromptLogprobs> prompt_logprobs;
  // To be published, in order of position per sequence. The running state of one that ended is
  // handed over as answer_end (of one cancelled in its prompt as planned, 16 tokens or more beyond
  // its resume point), covering every token that was run: all but the last sampled one.
  std::vector<SavedState> saved;
  std::vector<EndedSequence> ended;
  std::vector<PreemptedSequence> preempted;
  // Decoding will need these soon: ask the prefix cache and add_blocks() what it gives. Repeated
  // until satisfied. A sequence without a block for its next token pauses. A report without rows
  // says that all of them pause: have the answer in before the next step, which preempts the
  // youngest if there was none.
  std::int32_t blocks_wanted = 0;
  std::int32_t prefill_rows = 0;
  std::int32_t decode_rows = 0;
  double prefill_context = 0;       // tokens before each prefill row, summed
  std::int32_t rows_held_back = 0;  // prefill rows that would have made the step too long
  double expected_seconds = 0;      // of the step's model part; 0: not known yet
  double model_seconds = 0;         // of that part: without copying states in
  double seconds = 0;
  double restore_seconds = 0;  // copying states in, of that
  std::int32_t restores = 0;   // that were timed
};

class BatchLoop {
 public:
  BatchLoop(model::Backend& backend, BatchOptions options);
  ~BatchLoop();

  /// At most max_running at a time; ids are unique among the running ones.
  void admit(SequenceSpec spec);
  /// Ends within this step boundary: the next report holds it as cancelled. Unknown ids are
  /// ignored.
  void cancel(SequenceId id);
  void cancel_all();
  /// A save asked for while the sequence runs: a position of its prompt that is still to come (one
  /// saved there anyway counts). False when it has passed it, publishes nothing or is unknown.
  bool add_save(SequenceId id, PlannedSave save);
  /// More blocks for decoding, as asked for by blocks_wanted. What nobody wants returns at once.
  void add_blocks(Reservation blocks);

  bool has_work() const;  // anything admitted, or ended and not yet reported
  std::int32_t running() const;
  /// Tokens of the sequence whose KV and state are computed; -1 for unknown ids.
  std::int32_t progress(SequenceId id) const;

  /// One model step (or only bookkeeping when nothing can run). Throws DeviceError /
  /// InvariantError: the loop is then unusable and every sequence in it lost.
  StepReport step();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::engine
