// SPDX-License-Identifier: Apache-2.0
#include "actors/testing.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "actors/wrap_backend.hpp"

namespace cairn::actors {
namespace {

BackendWrapper& wrapper() {
  static BackendWrapper instance;
  return instance;
}

class OneUlpBackend final : public SameBackend {
 public:
  using SameBackend::SameBackend;
  void copy_state(const std::byte* from, std::byte* to) override {
    SameBackend::copy_state(from, to);
    // The middle of the first recurrent layer's S: it is read by every later token.
    std::uint32_t word = 0;
    std::memcpy(&word, to + 128, sizeof word);
    word ^= 1U;
    std::memcpy(to + 128, &word, sizeof word);
  }
};

class SlowBackend final : public SameBackend {
 public:
  SlowBackend(std::unique_ptr<model::Backend> inner, std::chrono::microseconds per_row)
      : SameBackend(std::move(inner)), per_row_(per_row) {}
  model::StepLogits step(std::span<const model::StepSlice> slices) override {
    std::size_t rows = 0;
    for (const model::StepSlice& slice : slices) rows += slice.tokens.size();
    std::this_thread::sleep_for(per_row_ * rows);
    return SameBackend::step(slices);
  }

 private:
  std::chrono::microseconds per_row_;
};

class SlowCopiesBackend final : public SameBackend {
 public:
  SlowCopiesBackend(std::unique_ptr<model::Backend> inner, std::chrono::microseconds per_state)
      : SameBackend(std::move(inner)), per_state_(per_state) {}
  void copy_state(const std::byte* from, std::byte* to) override {
    std::this_thread::sleep_for(per_state_);
    SameBackend::copy_state(from, to);
  }

 private:
  std::chrono::microseconds per_state_;
};

}  // namespace

void drop_cache(Engine& engine) {
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (Clock::now() < end) {
    // A prefix actor that is being replaced cannot be asked.
    const auto dropped = engine.drop_cache(std::chrono::seconds(1));
    const EngineStats now = engine.stats();
    const bool empty = now.states == 0 && now.kv_blocks == 0;
    if (dropped && empty && now.running == 0 && now.waiting == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void wrap_backends([[maybe_unused]] BackendWrapper w) {
#ifdef CAIRN_FAILPOINTS_ENABLED
  wrapper() = std::move(w);
#endif
}

std::unique_ptr<model::Backend> wrapped(std::unique_ptr<model::Backend> backend) {
  return wrapper() ? wrapper()(std::move(backend)) : std::move(backend);
}

std::unique_ptr<model::Backend> add_one_ulp_to_restored_states(
    std::unique_ptr<model::Backend> inner) {
  return std::make_unique<OneUlpBackend>(std::move(inner));
}

BackendWrapper slow_steps(std::chrono::microseconds per_row) {
  return [per_row](std::unique_ptr<model::Backend> inner) {
    return std::make_unique<SlowBackend>(std::move(inner), per_row);
  };
}

BackendWrapper slow_copies(std::chrono::microseconds per_state) {
  return [per_state](std::unique_ptr<model::Backend> inner) {
    return std::make_unique<SlowCopiesBackend>(std::move(inner), per_state);
  };
}

}  // namespace cairn::actors
