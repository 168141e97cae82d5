// SPDX-License-Identifier: Apache-2.0
// A client of the public API for tests: submits, collects events, waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace cairn::tests {

/// Everything one request delivered.
struct Answer {
  std::optional<Started> started;
  std::vector<std::string> text;                     // by choice
  std::vector<std::vector<std::int32_t>> tokens;     // by choice
  std::vector<std::vector<TokenInfo>> logprobs;      // by choice
  std::vector<std::optional<FinishReason>> reasons;  // by choice
  std::optional<Usage> usage;
  std::optional<Error> error;  // submit's or Failed's
  int last_events = 0;         // Finished and Failed seen: must be 1
  std::chrono::steady_clock::time_point first_token;
  std::vector<std::chrono::steady_clock::time_point> token_times;

  std::int32_t cached() const { return usage ? usage->cached_tokens : 0; }
};

/// One submitted request. Thread-safe.
class Call {
 public:
  Call(Engine& engine, GenerateRequest request);
  Call(const Call&) = delete;
  ~Call();

  /// Waits for the last event (at most a minute, then fails the test by throwing).
  Answer wait();
  bool done() const;
  /// Waits until `n` tokens have arrived or the request ended.
  void wait_tokens(std::size_t n);
  void cancel();
  RequestId id() const { return id_; }

 private:
  struct State;
  static void take(State& state, Event event);
  Engine& engine_;
  std::shared_ptr<State> state_;
  RequestId id_ = 0;
};

inline Answer ask(Engine& engine, GenerateRequest request) {
  return Call(engine, std::move(request)).wait();
}

/// Greedy request over token ids.
GenerateRequest ids_request(std::vector<std::int32_t> ids, std::int32_t max_tokens);

}  // namespace cairn::tests
