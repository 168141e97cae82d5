// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/batch/harness.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "tests/support/catch.hpp"

namespace cairn::testing {

Tokens random_tokens(std::uint64_t seed, int n, int vocab) {
  std::mt19937_64 rng(seed);
  Tokens tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(static_cast<std::int32_t>(rng() % static_cast<unsigned>(vocab)));
  }
  return tokens;
}

Ask random_ask(std::uint64_t seed, int prompt_tokens, std::int32_t max_new) {
  std::mt19937_64 rng(seed);
  Ask ask;
  ask.prompt = random_tokens(seed, prompt_tokens);
  ask.max_new = max_new;
  ask.sampling.temperature = rng() % 4 == 0 ? 0.0F : 0.9F;
  ask.sampling.top_p = 0.95F;
  ask.sampling.seed = rng();
  if (rng() % 2) ask.sampling.repetition_penalty = 1.2F;
  if (rng() % 2) ask.sampling.frequency_penalty = 0.3F;
  ask.choice = static_cast<std::int32_t>(rng() % 3);
  return ask;
}

Tokens cold_answer(const Ask& ask) {
  FakeBackend backend;
  model::Sampler sampler(backend.config().sampled_vocab);
  model::TokenHistory history;
  history.add_prompt(ask.prompt);
  const auto total = static_cast<std::int32_t>(ask.prompt.size()) + ask.max_new;
  const std::size_t block_bytes = backend.layout().kv_block_bytes;
  std::vector<std::byte> memory(static_cast<std::size_t>(engine::blocks_for(total)) * block_bytes);
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < memory.size(); i += block_bytes) blocks.push_back(&memory[i]);
  std::vector<std::byte> state(backend.layout().state_bytes);
  backend.reset_state(state.data());
  Tokens run = ask.prompt;
  Tokens answer;
  std::int32_t position = 0;
  while (static_cast<std::int32_t>(answer.size()) < ask.max_new) {
    if (ask.context_length > 0 &&
        position + static_cast<std::int32_t>(run.size()) >= ask.context_length)
      break;
    model::StepSlice slice;
    slice.tokens = run;
    slice.position = position;
    slice.kv_blocks = blocks;
    slice.state = state.data();
    slice.logits_from = static_cast<std::int32_t>(run.size()) - 1;
    const auto logits = backend.step({&slice, 1});
    position += static_cast<std::int32_t>(run.size());
    const auto row = logits.row(0).first(static_cast<std::size_t>(backend.config().sampled_vocab));
    answer.push_back(sampler.sample(row, ask.sampling, &history, ask.choice, answer.size()));
    history.add_generated(answer.back());
    if (std::count(ask.stop_ids.begin(), ask.stop_ids.end(), answer.back()) > 0) break;
    run = {answer.back()};
  }
  return answer;
}

namespace {

std::uint64_t pool_bytes(const FakeBackend& backend, std::int64_t blocks, std::int64_t states) {
  if (backend.free_bytes() > 0) return backend.free_bytes();
  const model::MemoryLayout layout = backend.layout();
  return static_cast<std::uint64_t>(blocks) * layout.kv_block_bytes +
         static_cast<std::uint64_t>(states) * layout.state_bytes;
}

}  // namespace

Rig::Rig(engine::BatchOptions options, std::int64_t blocks, std::int64_t states, FakeOptions fake)
    : backend(fake),
      pools(backend.layout(), pool_bytes(backend, blocks, states),
            backend.make_arena(fake.arena_bytes_free)),
      loop(backend, options) {}

SequenceSpec Rig::spec(SequenceId id, const Ask& ask, std::int32_t reserve) {
  SequenceSpec spec;
  spec.id = id;
  spec.tokens = std::make_shared<const Tokens>(ask.prompt);
  spec.max_new = ask.max_new;
  spec.context_length = ask.context_length;
  spec.sampling = ask.sampling;
  spec.choice = ask.choice;
  spec.stop_ids = ask.stop_ids;
  const auto n = static_cast<std::int32_t>(ask.prompt.size());
  auto reserved =
      pools.reserve(engine::blocks_for(std::max(reserve, reserve < 0 ? n + ask.max_new : n)), 1);
  REQUIRE(reserved.has_value());
  spec.lease.id = id;
  spec.lease.running_state = reserved->take_state();
  spec.lease.reservation = std::move(*reserved);
  asks_[id] = ask;
  return spec;
}

SequenceSpec Rig::resumed(SequenceId id, const Ask& ask, const SavedState& from) {
  SequenceSpec s = spec(id, ask);
  s.lease.resume = from.position;
  s.lease.resume_state = from.state;
  s.lease.prefix_blocks = from.blocks;
  return s;
}

engine::PlannedSave Rig::planned_save(std::int32_t position, StateKind kind) {
  auto reserved = pools.reserve(0, 1);
  REQUIRE(reserved.has_value());
  return {position, kind, reserved->take_state()};
}

void Rig::save_at(SequenceSpec& spec, std::int32_t position, StateKind kind) {
  spec.lease.saves.push_back(planned_save(position, kind));
}

StepReport Rig::step_raw() {
  StepReport report = loop.step();
  for (const auto& token : report.tokens) {
    Outcome& out = outcomes[token.id];
    if (out.tokens.empty()) out.first_token_step = steps;
    out.tokens.push_back(token.token);
    out.logprobs.push_back(token.logprobs);
  }
  for (const auto& part : report.prompt_logprobs) {
    Outcome& out = outcomes[part.id];
    CHECK(part.position == static_cast<std::int32_t>(out.prompt.size()) + 1);
    out.prompt.insert(out.prompt.end(), part.entries.begin(), part.entries.end());
  }
  for (const auto& saved : report.saved) {
    if (keep_saved) outcomes[saved.id].saved.push_back(saved);
  }
  for (const auto& ended : report.ended) {
    Outcome& out = outcomes[ended.id];
    CHECK_FALSE(out.ended);
    out.ended = true;
    out.reason = ended.reason;
    out.error = ended.error;
    out.in_prefill = ended.in_prefill;
  }
  preemptions += static_cast<int>(report.preempted.size());
  ++steps;
  return report;
}

StepReport Rig::step(bool grant) {
  StepReport report = step_raw();
  if (!keep_saved) report.saved.clear();
  if (grant && report.blocks_wanted > 0) {
    std::int32_t blocks = report.blocks_wanted;
    auto more = pools.reserve(blocks, 0);
    while (!more && --blocks > 0) more = pools.reserve(blocks, 0);
    if (more) loop.add_blocks(std::move(*more));
  }
  return report;
}

void Rig::readmit(const engine::PreemptedSequence& preempted) {
  Ask ask = asks_.at(preempted.id);
  const Ask original = ask;
  ask.prompt = *preempted.tokens;
  ask.max_new -= preempted.generated;  // for the reservation only
  SequenceSpec again = spec(preempted.id, ask);
  again.max_new = original.max_new;
  again.generated = preempted.generated;
  asks_[preempted.id] = original;
  loop.admit(std::move(again));
}

void Rig::run() {
  std::vector<engine::PreemptedSequence> waiting;
  for (int i = 0; loop.has_work() || !waiting.empty(); ++i) {
    REQUIRE(i < 100'000);
    if (!waiting.empty()) {
      const auto& next = waiting.front();
      const Ask& ask = asks_.at(next.id);
      const auto tokens = static_cast<std::int32_t>(ask.prompt.size()) + ask.max_new;
      if (pools.reserve(engine::blocks_for(tokens) + 1, 1).has_value()) {
        readmit(next);
        waiting.erase(waiting.begin());
      }
    }
    StepReport report = step();
    for (auto& preempted : report.preempted) waiting.push_back(std::move(preempted));
  }
}

bool Rig::pools_empty() const {
  const auto u = pools.usage();
  return u.blocks_live == 0 && u.states_live == 0 && u.blocks_reserved == 0 &&
         u.states_reserved == 0;
}

}  // namespace cairn::testing
