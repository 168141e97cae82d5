// SPDX-License-Identifier: Apache-2.0
// What all actors of one engine share: immutable after start, or thread-safe by itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "actors/tickets.hpp"
#include "engine/cache/disk_store.hpp"
#include "engine/cache/pools.hpp"
#include "engine/engine.hpp"
#include "engine/model_bundle.hpp"
#include "engine/request/validate.hpp"

namespace cairn::actors {

/// Set once, when the device answers nothing any more: nothing runs again in this process.
/// Thread-safe.
class DeviceLoss {
 public:
  void set(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!lost_) reason_ = "the device was lost, restart the server: " + reason;
    lost_ = true;
  }
  explicit operator bool() const { return lost_; }
  Error error() const {
    const std::lock_guard lock(mutex_);
    return {ErrorCode::unavailable, reason_, ""};
  }

 private:
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

/// Where the policy's tables are kept on disk.
inline constexpr const char* kLearnedBlob = "learned";

struct Shared {
  // Without zeros for cache_bytes, max_running and max_step_tokens once the device is open.
  EngineOptions options;
  std::shared_ptr<const engine::ModelBundle> bundle;
  std::shared_ptr<engine::MemoryPools> pools;
  std::shared_ptr<model::Arena> arena;  // that the pools are on; null: the host's memory
  std::shared_ptr<Metrics> metrics;     // never null
  std::int32_t context_length = 0;
  engine::RequestLimits request_limits;

  /// A backend for the executor; called on its thread, again when it is replaced. Throws
  /// DeviceError.
  std::function<std::unique_ptr<model::Backend>()> make_backend;

  /// Null without a disk tier. Driven by the disk actor; match(), contains() and stat() by all.
  std::unique_ptr<engine::DiskStore> disk;
  /// The first slots of a copy of a KV block in the host's memory, to another; thread-safe.
  model::Backend::HostSlotCopy copy_kv_slots;

  Tickets tickets;  // submitted, last event not yet delivered
  std::atomic<std::uint64_t> next_sequence{1};
  // Sequences before it were submitted before the cache was dropped.
  std::atomic<std::uint64_t> first_kept{0};
  // Read by Engine::submit, stats and health without asking an actor.
  std::atomic<std::int64_t> waiting{0};  // tickets not yet admitted to the batch
  std::atomic<std::int64_t> waiting_tokens{0};
  std::atomic<std::int64_t> waiting_bytes{0};
  std::atomic<std::int64_t> running{0};  // sequences in the batch
  std::atomic<std::int64_t> cached_states{0};
  std::atomic<std::uint64_t> plan_epoch{0};
  std::atomic<double> cache_price{0};
  std::atomic<double> seconds_per_prefill_token{0};  // moving average of the executor's
  // F of prefill as fitted by the executor; 0: not known yet.
  std::atomic<double> prefill_seconds_a{0}, prefill_seconds_b{0};
  // Measured once before serving, then the executor's moving average of copies in.
  std::atomic<double> seconds_per_state_copy{0};
  std::vector<std::byte> learned;             // by the policy before this start; empty: nothing
  std::atomic<std::int64_t> plan_backlog{0};  // events that the planner has not yet applied
  std::atomic<std::int64_t> disk_backlog{0};  // states that wait to be written
  std::atomic<bool> disk_counted{false};      // a disk actor has told the counters of its store
  std::atomic<bool> executor_up{false};
  DeviceLoss device_loss;
  std::atomic<bool> closing{false};
};

}  // namespace cairn::actors
