// SPDX-License-Identifier: Apache-2.0
// A sequence that a test drives step by step, on whatever memory the backend works in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/net/backend.hpp"

namespace cairn::testing {

/// Memory that a backend's blocks and states live in; the default is the host's.
struct DeviceMemory {
  /// Zeroed, 64-byte aligned.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocate;
  std::function<void(const std::byte* from, void* to_host, std::size_t bytes)> read;
  std::function<void(const void* from_host, std::byte* to, std::size_t bytes)> write;
};
DeviceMemory host_memory();

/// One sequence driven by hand: its tokens, blocks and running state. Not thread-safe.
class DrivenSequence {
 public:
  DrivenSequence(model::Backend& backend, const DeviceMemory& memory);

  /// Continues `other` at `position` from `state`: full blocks are shared, a begun one is copied.
  static DrivenSequence resume(const DrivenSequence& other, std::int32_t position,
                               const std::byte* state);

  /// The next share of a step; holds until the next call. `saves` must outlive the step.
  model::StepSlice slice(std::span<const std::int32_t> tokens, std::int32_t logits_from = -1,
                         std::span<const model::SavePoint> saves = {});
  /// To be called once the step that took slice() has run.
  void advance();

  /// One step of this sequence alone: logits of all rows, [rows, vocab].
  std::vector<float> run(std::span<const std::int32_t> tokens,
                         std::span<const model::SavePoint> saves = {});

  std::int32_t position() const { return position_; }
  std::byte* state() const { return state_.get(); }
  std::shared_ptr<std::byte> new_state() const;
  std::vector<std::byte> state_bytes() const;
  std::vector<std::byte> kv_bytes() const;  // all blocks, slots never written are zero
  std::vector<std::byte> bytes_of(const std::byte* state) const;
  const DeviceMemory& memory() const { return *memory_; }
  model::Backend& backend() const { return *backend_; }
  std::byte* block(std::size_t i) const { return blocks_[i].get(); }

 private:
  model::Backend* backend_;
  const DeviceMemory* memory_;
  std::shared_ptr<std::byte> state_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::vector<std::byte*> table_;
  std::int32_t position_ = 0;
  std::int32_t pending_ = 0;
};

/// Logits of a short prompt on one thread of the CPU, by which two loads of a model are compared.
std::vector<float> logits_of(const std::shared_ptr<const model::Weights>& weights);

}  // namespace cairn::testing
