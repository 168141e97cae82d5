// SPDX-License-Identifier: Apache-2.0
#include "tests/support/exactness_sequence.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cairn::testing {
namespace {

constexpr std::int32_t kBlock = model::kBlockTokens;
using Bytes = std::vector<std::byte>;

}  // namespace

DeviceMemory host_memory() {
  return {
      [](std::size_t bytes) {
        const std::size_t rounded = std::max<std::size_t>(64, (bytes + 63) / 64 * 64);
        auto* const data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
        std::memset(data, 0, rounded);
        return std::shared_ptr<std::byte>(data, [](std::byte* p) { std::free(p); });
      },
      [](const std::byte* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); },
      [](const void* from, std::byte* to, std::size_t bytes) { std::memcpy(to, from, bytes); },
  };
}

DrivenSequence::DrivenSequence(model::Backend& backend, const DeviceMemory& memory)
    : backend_(&backend), memory_(&memory), state_(memory.allocate(backend.layout().state_bytes)) {
  backend.reset_state(state_.get());
}

DrivenSequence DrivenSequence::resume(const DrivenSequence& other, std::int32_t position,
                                      const std::byte* state) {
  DrivenSequence s(*other.backend_, *other.memory_);
  s.backend_->copy_state(state, s.state_.get());
  const auto full = static_cast<std::size_t>(position / kBlock);
  s.blocks_.assign(other.blocks_.begin(),
                   other.blocks_.begin() + static_cast<std::ptrdiff_t>(full));
  if (position % kBlock != 0) {
    s.blocks_.push_back(s.memory_->allocate(s.backend_->layout().kv_block_bytes));
    s.backend_->copy_kv_slots(other.blocks_[full].get(), s.blocks_.back().get(), position % kBlock);
  }
  s.position_ = position;
  return s;
}

model::StepSlice DrivenSequence::slice(std::span<const std::int32_t> tokens,
                                       std::int32_t logits_from,
                                       std::span<const model::SavePoint> saves) {
  pending_ = static_cast<std::int32_t>(tokens.size());
  const auto needed = static_cast<std::size_t>((position_ + pending_ + kBlock - 1) / kBlock);
  while (blocks_.size() < needed) {
    blocks_.push_back(memory_->allocate(backend_->layout().kv_block_bytes));
  }
  table_.clear();
  for (const auto& block : blocks_) table_.push_back(block.get());
  return {tokens, position_, table_, state_.get(), saves, logits_from};
}

void DrivenSequence::advance() {
  position_ += pending_;
  pending_ = 0;
}

std::vector<float> DrivenSequence::run(std::span<const std::int32_t> tokens,
                                       std::span<const model::SavePoint> saves) {
  const model::StepSlice share = slice(tokens, 0, saves);
  backend_->step({&share, 1});
  const model::StepLogits got = backend_->read_logits();
  advance();
  return {got.data,
          got.data + static_cast<std::size_t>(got.rows) * static_cast<std::size_t>(got.vocab)};
}

std::shared_ptr<std::byte> DrivenSequence::new_state() const {
  return memory_->allocate(backend_->layout().state_bytes);
}

std::vector<std::byte> DrivenSequence::bytes_of(const std::byte* state) const {
  Bytes out(backend_->layout().state_bytes);
  memory_->read(state, out.data(), out.size());
  return out;
}

std::vector<std::byte> DrivenSequence::state_bytes() const { return bytes_of(state_.get()); }

std::vector<std::byte> DrivenSequence::kv_bytes() const {
  const std::size_t size = backend_->layout().kv_block_bytes;
  Bytes out(size * blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    memory_->read(blocks_[i].get(), out.data() + i * size, size);
  }
  return out;
}

std::vector<float> logits_of(const std::shared_ptr<const model::Weights>& weights) {
  model::CpuOptions options;
  options.threads = 1;
  const auto backend = model::make_cpu_backend(weights, options);
  const DeviceMemory memory = host_memory();
  DrivenSequence sequence(*backend, memory);
  return sequence.run(std::vector<std::int32_t>{5, 1, 77, 20});
}

}  // namespace cairn::testing
