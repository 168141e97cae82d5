// SPDX-License-Identifier: Apache-2.0
#include "bench/live/copies.hpp"

#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "base/check.hpp"
#include "bench/live/client.hpp"
#include "engine/cache/pools.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace cairn::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The machine's copy between states of pools like the engine's.
class PlainCopy {
 public:
  // Enough that no state is still in a cache when its turn comes again.
  static constexpr std::int32_t kStates = 16;

  PlainCopy(const model::MemoryLayout& layout, int threads)
      : bytes_(layout.state_bytes),
        pools_(layout, (2 * kStates + 1) * layout.state_bytes),
        pool_(threads) {
    auto states = pools_.reserve(0, 2 * kStates);
    check(states.has_value(), "states do not fit pools made for them");
    for (std::int32_t i = 0; i < kStates; ++i) from_.push_back(states->take_state());
    for (std::int32_t i = 0; i < kStates; ++i) to_.push_back(states->take_state());
    for (const auto& state : from_) std::memset(state.data(), 1, bytes_);
  }

  /// Median over the states; the first round finds fresh memory.
  double round() {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < to_.size(); ++i) {
      seconds.push_back(seconds_of([&] { copy(from_[i].data(), to_[i].data()); }));
    }
    return median(std::move(seconds));
  }

 private:
  void copy(const std::byte* from, std::byte* to) {
    const auto parts = static_cast<std::size_t>(pool_.threads() == 1 ? 1 : 4 * pool_.threads());
    pool_.run(static_cast<std::int64_t>(parts), [&](std::int64_t i) {
      const std::size_t begin = bytes_ * static_cast<std::size_t>(i) / parts;
      const std::size_t end = bytes_ * static_cast<std::size_t>(i + 1) / parts;
      std::memcpy(to + begin, from + begin, end - begin);
    });
  }

  std::size_t bytes_;
  engine::MemoryPools pools_;
  kernels::ThreadPool pool_;
  std::vector<engine::StateRef> from_, to_;
};

class Measurement {
 public:
  explicit Measurement(const CopiesOptions& options)
      : options_(options), metrics_(std::make_shared<Metrics>()) {
    EngineOptions engine;
    engine.model = options.model;
    engine.threads = options.threads;
    engine.policy = "block:" + std::to_string(options.apart);
    engine.cache_bytes = options.cache_bytes;
    engine_ = make_engine(std::move(engine), metrics_);
  }

  CopiesResult run() {
    const model::MemoryLayout layout = layout_of(*engine_);
    result_.state_bytes = layout.state_bytes;
    without_saves(prompt());  // weights and buffers are touched
    for (int i = 0; i < options_.pairs; ++i) result_.save_fresh.push_back(pair());
    for (int i = 0; i < 2 * options_.pairs; ++i) {
      if (i % options_.pairs == 0) drop();
      result_.save_used.push_back(pair());
    }
    restore();
    PlainCopy together(layout, engine_->info().threads), alone(layout, 1);
    result_.copy_fresh = together.round();
    result_.copy_used = together.round();
    alone.round();
    result_.copy_alone = alone.round();
    return result_;
  }

 private:
  Tokens prompt() {
    return random_tokens(*engine_, random_, static_cast<std::size_t>(options_.prompt));
  }

  double without_saves(const Tokens& prompt) {
    GenerateRequest request = greedy(prompt, 1);
    request.use_cache = false;
    return ask(*engine_, std::move(request)).usage.prefill_seconds;
  }

  // Seconds that a state added to the prefill of one prompt.
  double pair() {
    const Tokens tokens = prompt();
    const bool saves_first = random_() % 2 == 0;
    double plain = saves_first ? 0 : without_saves(tokens);
    const double before = states_stored(*engine_, *metrics_).copied;
    const double with = ask(*engine_, greedy(tokens, 1)).usage.prefill_seconds;
    const double states = states_stored(*engine_, *metrics_).copied - before;
    if (saves_first) plain = without_saves(tokens);
    result_.states_a_prompt = states;
    if (!(states > 0)) throw LoadError("no state was kept of a prompt");
    return (with - plain) / states;
  }

  // All memory that was written is free again, and taken before any that was not.
  void drop() {
    const auto dropped = engine_->drop_cache(std::chrono::seconds(10));
    if (!dropped.ok()) throw LoadError(dropped.error().message);
  }

  void restore() {
    const Tokens tokens = prompt();
    ask(*engine_, greedy(tokens, 1));
    states_stored(*engine_, *metrics_);
    for (int i = 0; i < options_.restores; ++i) {
      const double before = metrics_->state_restore_seconds().sum();
      ask(*engine_, greedy(tokens, 1));
      result_.restore.push_back(metrics_->state_restore_seconds().sum() - before);
    }
  }

  const CopiesOptions& options_;
  std::mt19937_64 random_{5};
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Engine> engine_;
  CopiesResult result_;
};

}  // namespace

CopiesResult measure_copies(const CopiesOptions& options) { return Measurement(options).run(); }

Findings findings_of(const CopiesResult& r) {
  constexpr double kMost = 1.5;
  constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
  const double gigabytes = 1e-9 * static_cast<double>(r.state_bytes);
  Findings out = {{"bytes of a state", static_cast<double>(r.state_bytes), "", {}},
                  {"states copied out of one prompt", r.states_a_prompt, "", {}}};
  const auto add = [&](const std::string& what, const std::vector<double>& seconds, double plain) {
    out.push_back({what + ", median", 1e3 * median(seconds), "ms", {}});
    out.push_back({what + ", plain copy", 1e3 * plain, "ms", {}});
    out.push_back({what + ", plain copy's bandwidth", gigabytes / plain, "GB/s", {}});
    // Where the machine's noise hid the copies nothing was measured.
    const double ratio = median(seconds) / plain;
    out.push_back({what + " / plain copy", ratio > 0 ? ratio : kNotMeasured, "", kMost});
  };
  add("copied out", r.save_used, r.copy_used);
  add("copied out to fresh memory", r.save_fresh, r.copy_fresh);
  add("copied in", r.restore, r.copy_alone);
  return out;
}

}  // namespace cairn::bench
