// SPDX-License-Identifier: Apache-2.0
// Sends planned requests: so many at a time, or at times of their own whatever the server does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/load/asker.hpp"
#include "http/client.hpp"

namespace cairn::load {

struct RunLimits {
  std::int32_t concurrency = 1;                // closed loop: requests at a time
  std::optional<double> rate;                  // open loop: requests a second, in a Poisson process
  std::uint64_t seed = 1;                      // of the arrivals
  std::int64_t requests = 0;                   // at most
  std::optional<double> seconds;               // none is sent later, turns that wait included
  std::chrono::milliseconds timeout{600'000};  // of a request
  /// Open loop: what turns may take that wait for the answer to the one before.
  std::uint64_t waiting_bytes = std::uint64_t{1} << 28U;
};

struct RunProgress {
  std::int64_t answered = 0, failed = 0, running = 0;
  double seconds = 0;
};

struct RunResult {
  double seconds = 0;
  std::string broken;  // why it was given up: the server is gone, or this machine at its limits
};

/// The next planned request, or nothing when there are no more.
using Source = std::function<std::optional<Planned>()>;
/// Takes each request that has ended, in that order; none that was interrupted.
using Sink = std::function<void(Record)>;

/// Runs until limits, source, `stop` or what broke end it, and answers have come for what was
/// sent; a stop does not wait for these. A turn of a conversation is sent when the one before was
/// answered; until then it takes a place of the closed loop, and its time of arrival moves to that
/// answer in the open one. Where waiting_bytes are taken it is not sent, which is an error of it
/// and of those after it. `sink` is called on the calling thread, and `progress` now and then.
/// Blocks.
RunResult run(http::Client& client, Asker& asker, const Source& source, const Sink& sink,
              const RunLimits& limits, const std::atomic<bool>& stop,
              const std::function<void(const RunProgress&)>& progress = {});

}  // namespace cairn::load
