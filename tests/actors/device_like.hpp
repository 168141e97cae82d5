// SPDX-License-Identifier: Apache-2.0
// The CPU backend behaving like a device: memory in an arena, logits withheld, rows sampled there.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/testing.hpp"
#include "base/check.hpp"
#include "model/net/sampler.hpp"
#include "tests/support/host_arena.hpp"

namespace cairn::tests {

/// One device, over all the backends that were made on it.
struct DeviceSeen {
  std::uint64_t free_bytes = 8'000'000;
  std::atomic<int> backends{0};
  std::atomic<int> arenas_taken_over{0};
  std::atomic<int> rows_sampled{0};
  std::atomic<bool> lost{false};
  std::shared_ptr<testing::HostArena> arena;
  std::function<void()> on_end;  // of a backend, with what it has queued still running
};

class DeviceLike final : public actors::SameBackend {
 public:
  DeviceLike(std::unique_ptr<model::Backend> inner, DeviceSeen& seen)
      : SameBackend(std::move(inner)), seen_(seen) {
    ++seen_.backends;
  }
  ~DeviceLike() override {
    if (seen_.on_end) seen_.on_end();
  }
  model::BackendInfo info() const override {
    model::BackendInfo info = SameBackend::info();
    info.device = "fake:0 like a device";
    return info;
  }
  model::StepLogits step(std::span<const model::StepSlice> slices) override {
    if (seen_.lost) throw DeviceLost("step: it fell off the bus");
    model::StepLogits logits = SameBackend::step(slices);
    logits.data = nullptr;
    return logits;
  }
  bool sample(std::span<const model::SampleRow> rows, std::int32_t vocab,
              std::vector<model::SampledRow>& out) override {
    model::Sampler sampler(vocab);
    const model::StepLogits logits = SameBackend::read_logits();
    for (const model::SampleRow& row : rows) {
      const auto values = logits.row(row.row).first(static_cast<std::size_t>(vocab));
      out.push_back(
          {.token = sampler.sample(values, *row.params, row.history, row.choice, row.index)});
      ++seen_.rows_sampled;
    }
    return true;
  }
  std::shared_ptr<model::Arena> make_arena(std::size_t bytes) override {
    seen_.arena = std::make_shared<testing::HostArena>(bytes);
    return seen_.arena;
  }
  void use_arena(const std::shared_ptr<model::Arena>& arena) override {
    check(arena == seen_.arena, "an arena of another device");
    ++seen_.arenas_taken_over;
  }
  std::uint64_t free_bytes() const override { return seen_.free_bytes; }

 private:
  DeviceSeen& seen_;
};

/// Engines made while it lives run on it; each row of a step takes `per_row` longer.
struct OnDevice {
  DeviceSeen seen;
  explicit OnDevice(std::chrono::microseconds per_row = {}) {
    actors::wrap_backends([this, slow = actors::slow_steps(per_row)](auto inner) {
      return std::make_unique<DeviceLike>(slow(std::move(inner)), seen);
    });
  }
  ~OnDevice() { actors::wrap_backends(nullptr); }
};

}  // namespace cairn::tests
