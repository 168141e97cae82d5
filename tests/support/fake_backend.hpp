// SPDX-License-Identifier: Apache-2.0
// A model made of hashes, for tests of everything above the kernels. The state is a rolling hash
// over the tokens and over all KV that each of them read through its block table; a KV slot is a
// hash of token, position, layer and state. So a stale or foreign slot, a wrong state, position or
// token changes every answer after it, and equal tokens give equal bits whatever the steps were.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/net/backend.hpp"

namespace cairn::testing {

struct FakeOptions {
  std::int32_t vocab_size = 48;
  std::int32_t sampled_vocab =
      40;                          // ids above have the highest logits of all: nobody may take them
  bool attention_in_state = true;  // false: only logits read the KV; for long prompts
  bool attention_in_logits = true;  // false: no step reads KV; for measuring what is around a step
  std::int32_t nan_token = -1;      // its row's logits are NaN
  std::int64_t fail_at_step = -1;   // that step throws DeviceError
  // Logits stay where they are until they are read, and rows are sampled there.
  bool samples_on_device = false;
  // Blocks and states are to lie in an arena, 256-byte aligned; what lies elsewhere is refused.
  // 0: the host's memory will do.
  std::uint64_t arena_bytes_free = 0;
};

/// What one step was given.
struct FakeStep {
  struct Slice {
    std::int32_t position = 0;
    std::int32_t rows = 0;
    std::int32_t saves = 0;
    bool logits = false;
  };
  std::vector<Slice> slices;
  std::int32_t rows = 0;
};

/// Not thread-safe, as every backend. Throws InvariantError on a malformed step or on a state that
/// does not belong to the position it is used at.
class FakeBackend final : public model::Backend {
 public:
  explicit FakeBackend(FakeOptions options = {});

  const model::ModelConfig& config() const override { return config_; }
  model::MemoryLayout layout() const override;
  model::BackendInfo info() const override;
  model::StepLogits step(std::span<const model::StepSlice> slices) override;
  model::StepLogits read_logits() override;
  bool sample(std::span<const model::SampleRow> rows, std::int32_t vocab,
              std::vector<model::SampledRow>& out) override;
  std::shared_ptr<model::Arena> make_arena(std::size_t bytes) override;
  void use_arena(const std::shared_ptr<model::Arena>& arena) override { arena_ = arena; }
  std::uint64_t free_bytes() const override { return options_.arena_bytes_free; }
  HostSlotCopy host_slot_copy() const override;
  void reset_state(std::byte* state) override;
  void copy_state(const std::byte* from, std::byte* to) override;
  void copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) override;

  /// Every step so far, unless forget_steps(true).
  const std::vector<FakeStep>& steps() const { return steps_; }
  void forget_steps(bool forget) { forget_ = forget; }
  std::int64_t step_count() const { return step_count_; }
  std::int64_t states_copied() const { return states_copied_; }
  std::int64_t logits_reads() const { return logits_reads_; }
  std::int64_t rows_sampled() const { return rows_sampled_; }
  FakeOptions& options() { return options_; }

 private:
  void run_token(const model::StepSlice& slice, std::int32_t i);
  std::uint64_t read_kv(const model::StepSlice& slice, std::int32_t position) const;
  void write_logits(const model::StepSlice& slice, std::int32_t i);
  void check_place(const std::byte* p) const;
  void check_places(const model::StepSlice& slice) const;
  model::StepLogits host_logits() const;

  FakeOptions options_;
  model::ModelConfig config_;
  std::vector<FakeStep> steps_;
  std::vector<float> logits_;
  bool forget_ = false;
  std::int64_t step_count_ = 0;
  std::int64_t states_copied_ = 0;
  std::int64_t logits_reads_ = 0;
  std::int64_t rows_sampled_ = 0;
  std::shared_ptr<model::Arena> arena_;
};

}  // namespace cairn::testing
