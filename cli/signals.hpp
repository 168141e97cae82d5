// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as calls on a thread of their own.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace cairn::cli {

/// Make it before any other thread, so that all of them leave the signals to this one. The handler
/// gets the signal and how many have come so far (from 1); it runs on the watcher's thread and may
/// do anything that a thread may.
class SignalWatcher {
 public:
  using Handler = std::function<void(int signal, int count)>;
  explicit SignalWatcher(Handler handler);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  Handler handler_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace cairn::cli
