// SPDX-License-Identifier: Apache-2.0
// What every connection of a server shares.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "http/server.hpp"

namespace cairn::http {

struct State {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Metrics> metrics;  // may be null
  ServerOptions options;
  std::int64_t started_unix = 0;  // seconds
  std::atomic<bool> draining{false};
  std::atomic<std::uint64_t> body_bytes{0};  // of all requests being received
};

/// The part of State::body_bytes that one request holds. Not thread-safe.
class BodyShare {
 public:
  explicit BodyShare(State& state) : state_(state) {}
  ~BodyShare() { state_.body_bytes -= held_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  /// False when all requests together would hold more than they may.
  bool grow_to(std::uint64_t bytes) {
    if (bytes <= held_) return true;
    const auto total = state_.body_bytes += bytes - held_;
    held_ = bytes;
    return total <= state_.options.max_bodies_bytes;
  }

 private:
  State& state_;
  std::uint64_t held_ = 0;
};

}  // namespace cairn::http
