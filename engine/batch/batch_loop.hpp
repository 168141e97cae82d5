// SPDX-License-Identifier: Apache-2.0
// Continuous batching without actors: admitted sequences, one model step at a time. Owned by one
// thread (the executor).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "model/net/backend.hpp"
#include "model/net/sampler.hpp"

namespace cairn::engine {

struct BatchOptions {
  std::int32_t max_step_tokens =
      512;  // rows of a step; decode rows come first, prefill chunks share the rest
  std::int32_t max_running = 16;
  std::int32_t sampled_vocab = 0;  // ids below it may be produced; 0: the backend's config says
  std::string isa;                 // of the sampler, as in CpuOptions
};

/// A sequence as admitted. For a preempted one `tokens` is prompt + what was generated, and
/// `generated` says how many of them are its own: sampling goes on with the same counters, so the
/// answer's bits do not change.
struct SequenceSpec {
  SequenceId id = 0;
  TokenSeq tokens;
  std::int32_t generated = 0;
  std::int32_t max_new = 1;  // in all, the generated ones included
  std::int32_t context_length = 0;
  model::SamplingParams sampling;
  std::int32_t choice = 0;  // index of the choice: part of the random stream's key
  std::vector<std::int32_t>
      stop_ids;  // ending tokens (eos and the request's own); empty with ignore_eos
  std::int32_t logprobs = -1;
  bool prompt_logprobs = false;
  Lease lease;
};

struct SampledToken {
  SequenceId id = 0;
  std::int32_t token = 0;
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
  std::int32_t generated = 0;
};

/// Memory ran out and this one was the youngest: its lease is gone, look it up again with `tokens`.
struct PreemptedSequence {
  SequenceId id = 0;
  TokenSeq tokens;
  std::int32_t generated = 0;
};

struct StepReport {
  std::vector<SampledToken> tokens;  // in batch order
  std::vector<PromptLogprobs> prompt_logprobs;
  std::vector<SavedState> saved;      // to be published, in order of position per sequence
  std::vector<SequenceId> prefilled;  // finished their prompt in this step
  std::vector<EndedSequence> ended;
  std::vector<PreemptedSequence> preempted;
  std::int32_t blocks_wanted = 0;  // decoding will need these soon: ask the prefix cache
  std::int32_t prefill_rows = 0;
  std::int32_t decode_rows = 0;
  double seconds = 0;
  double restore_seconds = 0;  // copying states in, of that
  std::int32_t restores = 0;
};

class BatchLoop {
 public:
  BatchLoop(model::Backend& backend, BatchOptions options);
  ~BatchLoop();

  void admit(SequenceSpec spec);
  /// Ends within this step boundary: the next report holds it as cancelled. Unknown ids are
  /// ignored.
  void cancel(SequenceId id);
  void cancel_all();
  /// A save asked for while the sequence runs; false when it has passed the position or is unknown.
  bool add_save(SequenceId id, PlannedSave save);
  /// More blocks for decoding, as asked for by blocks_wanted.
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
