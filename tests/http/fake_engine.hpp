// SPDX-License-Identifier: Apache-2.0
// An engine that does what a test tells it to, each request on its own thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/engine.hpp"

namespace cairn::testing {

/// A request as the script sees it.
class FakeRun {
 public:
  GenerateRequest request;
  RequestId id = 0;

  void emit(Event event);
  void started(std::int32_t prompt = 3, std::int32_t cached = 0) {
    emit(Started{prompt, cached, 7, {}});
  }
  void text(const std::string& words, std::int32_t choice = 0);
  void finish(FinishReason reason = FinishReason::stop, std::int32_t cached = 0);
  void fail(ErrorCode code, const std::string& message) { emit(Failed{{code, message, ""}, {}}); }

  bool cancelled();
  /// False when it was not cancelled in time.
  bool wait_cancelled(std::chrono::milliseconds time);
  void pause(int ms) { wait_cancelled(std::chrono::milliseconds(ms)); }
  bool ended() const { return ended_; }

 private:
  friend class FakeEngine;
  EventSink sink_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  bool ended_ = false;
};

class FakeEngine : public Engine {
 public:
  using Script = std::function<void(FakeRun&)>;

  FakeEngine();
  ~FakeEngine() override;

  /// What every later request does. A script that returns without an end gets Failed{cancelled}.
  void set_script(Script script);
  /// The next submit is refused with this.
  void refuse_next(Error error);
  void set_health(Health health);
  void set_cache_scope(const std::string& scope) { info_.cache_scope = scope; }
  /// What plan_json and drop_cache answer from now on.
  void set_plan(Result<std::string> plan);
  void set_dropped(Result<DroppedCache> dropped);
  int drops() const { return drops_; }
  /// While held both wait before they answer.
  void hold_admin(bool held);
  std::int64_t waiting_for_admin() const { return admin_waits_; }

  std::vector<GenerateRequest> requests() const;
  std::size_t cancels() const;
  /// Waits until `count` requests were cancelled.
  bool wait_cancels(std::size_t count,
                    std::chrono::milliseconds time = std::chrono::seconds(5)) const;
  std::int64_t running() const { return running_; }
  bool wait_idle(std::chrono::milliseconds time = std::chrono::seconds(5)) const;

  Result<RequestId> submit(GenerateRequest request, EventSink sink) override;
  void cancel(RequestId id) override;
  Result<std::vector<std::int32_t>> tokenize(const Prompt& prompt) const override;
  Result<std::string> detokenize(std::span<const std::int32_t> tokens, bool skip) const override;
  std::string token_bytes(std::int32_t token) const override;
  const EngineInfo& info() const override { return info_; }
  EngineStats stats() const override;
  Health health() const override;
  Result<DroppedCache> drop_cache(std::chrono::milliseconds timeout) override;
  Result<std::string> plan_json(std::chrono::milliseconds timeout) override;
  std::vector<std::string> close(std::chrono::milliseconds) override { return {}; }

 private:
  void wait_held(std::unique_lock<std::mutex>& lock);

  EngineInfo info_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Script script_;
  std::deque<Error> refusals_;
  Health health_{true, ""};
  Result<std::string> plan_ = std::string("{}");
  Result<DroppedCache> dropped_ = DroppedCache{};
  std::atomic<int> drops_{0};
  bool admin_held_ = false;
  std::atomic<std::int64_t> admin_waits_{0};
  std::map<RequestId, std::shared_ptr<FakeRun>> runs_;
  std::vector<GenerateRequest> requests_;
  std::set<RequestId> cancelled_;
  std::vector<std::thread> threads_;
  std::atomic<std::int64_t> running_{0};
  RequestId next_ = 1;
};

}  // namespace cairn::testing
