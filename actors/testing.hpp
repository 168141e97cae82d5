// SPDX-License-Identifier: Apache-2.0
// What tests may do to a running engine. Builds without failpoints ignore all of it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/messages.hpp"
#include "model/net/backend.hpp"

namespace cairn::actors {

/// That actor throws at its next message. `engine` must come from make_engine.
void kill_actor(Engine& engine, Role role, int worker = 0);

/// Engine::drop_cache until nothing is cached and no sequence holds memory (at most 5 s).
void drop_cache(Engine& engine);

/// Another backend, but for what a test overrides.
class SameBackend : public model::Backend {
 public:
  explicit SameBackend(std::unique_ptr<model::Backend> inner) : inner_(std::move(inner)) {}
  const model::ModelConfig& config() const override { return inner_->config(); }
  model::MemoryLayout layout() const override { return inner_->layout(); }
  model::BackendInfo info() const override { return inner_->info(); }
  model::StepLogits step(std::span<const model::StepSlice> slices) override {
    return inner_->step(slices);
  }
  void reset_state(std::byte* state) override { inner_->reset_state(state); }
  void copy_state(const std::byte* from, std::byte* to) override { inner_->copy_state(from, to); }
  model::StepLogits read_logits() override { return inner_->read_logits(); }
  bool sample(std::span<const model::SampleRow> rows, std::int32_t vocab,
              std::vector<model::SampledRow>& out) override {
    return inner_->sample(rows, vocab, out);
  }
  std::shared_ptr<model::Arena> make_arena(std::size_t bytes) override {
    return inner_->make_arena(bytes);
  }
  void use_arena(const std::shared_ptr<model::Arena>& arena) override { inner_->use_arena(arena); }
  std::uint64_t free_bytes() const override { return inner_->free_bytes(); }
  HostSlotCopy host_slot_copy() const override { return inner_->host_slot_copy(); }
  void copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) override {
    inner_->copy_kv_slots(from, to, tokens);
  }

 private:
  std::unique_ptr<model::Backend> inner_;
};

using BackendWrapper =
    std::function<std::unique_ptr<model::Backend>(std::unique_ptr<model::Backend>)>;
/// Engines made from now on put this around their device; null: no more.
void wrap_backends(BackendWrapper wrapper);
/// A wrapper that changes the last bit of one float in every state that is copied in: the smallest
/// fault there is.
std::unique_ptr<model::Backend> add_one_ulp_to_restored_states(
    std::unique_ptr<model::Backend> inner);
/// A wrapper that makes every row of a step take that much longer: a larger model.
BackendWrapper slow_steps(std::chrono::microseconds per_row);
/// A wrapper that makes every state that is copied in take that much longer: a slower memory.
BackendWrapper slow_copies(std::chrono::microseconds per_state);

}  // namespace cairn::actors
