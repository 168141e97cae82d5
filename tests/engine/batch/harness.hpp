// SPDX-License-Identifier: Apache-2.0
// Leases without a prefix cache, a loop driven to its end, and the answer a cold engine would give.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/batch/batch_loop.hpp"
#include "engine/cache/pools.hpp"
#include "tests/support/fake_backend.hpp"

namespace cairn::testing {

using engine::BatchLoop;
using engine::EndReason;
using engine::Lease;
using engine::MemoryPools;
using engine::SavedState;
using engine::SequenceId;
using engine::SequenceSpec;
using engine::StateKind;
using engine::StepReport;
using Tokens = std::vector<std::int32_t>;

/// `n` tokens that depend on `seed` only; a longer list starts like a shorter one.
Tokens random_tokens(std::uint64_t seed, int n, int vocab = 40);

/// What a request asks for, apart from its memory.
struct Ask {
  Tokens prompt;
  std::int32_t max_new = 8;
  model::SamplingParams sampling;
  std::int32_t choice = 0;
  Tokens stop_ids;
  std::int32_t context_length = 0;
};
/// Sampled from a seed with every parameter in play.
Ask random_ask(std::uint64_t seed, int prompt_tokens, std::int32_t max_new = 8);

/// The answer of one sequence alone: the whole prompt in one step, then token by token, on plain
/// memory.
Tokens cold_answer(const Ask& ask);

struct Outcome {
  Tokens tokens;
  std::vector<model::TokenLogprobs> logprobs;
  std::vector<model::TokenLogprobs> prompt;  // of tokens 1, 2, ...
  std::vector<SavedState> saved;
  EndReason reason = EndReason::failed;
  Error error;
  bool ended = false;
  bool in_prefill = false;
  int first_token_step = -1;
};

/// One backend, its pools and a loop over them.
class Rig {
 public:
  explicit Rig(engine::BatchOptions options = {}, std::int64_t blocks = 4096,
               std::int64_t states = 512, FakeOptions fake = {});

  FakeBackend backend;
  MemoryPools pools;
  BatchLoop loop;
  std::map<SequenceId, Outcome> outcomes;
  int steps = 0;
  int preemptions = 0;
  bool keep_saved = true;  // false: drops what was saved, and with it its memory

  /// A spec with a cold lease; `reserve` positions reserved, -1: the prompt's and the answer's.
  SequenceSpec spec(SequenceId id, const Ask& ask, std::int32_t reserve = -1);
  /// The same, resuming from a state that was saved.
  SequenceSpec resumed(SequenceId id, const Ask& ask, const SavedState& from);
  void save_at(SequenceSpec& spec, std::int32_t position, StateKind kind = StateKind::planned);
  engine::PlannedSave planned_save(std::int32_t position, StateKind kind = StateKind::branch);

  /// One step, its report entered into `outcomes`; what it wants is granted where the pools can.
  StepReport step(bool grant = true);
  /// One step entered into `outcomes`, and nothing else done with its report.
  StepReport step_raw();
  /// Until nothing is left to do; preempted sequences are admitted again, cold.
  void run();
  bool pools_empty() const;

 private:
  void readmit(const engine::PreemptedSequence& preempted);
  std::map<SequenceId, Ask> asks_;
  std::map<SequenceId, std::int32_t> logprobs_;
};

}  // namespace cairn::testing
