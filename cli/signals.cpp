// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.hpp"

#include <csignal>
#include <ctime>
#include <utility>

namespace cairn::cli {
namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher(Handler handler) : handler_(std::move(handler)) {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this, set] {
    int count = 0;
    while (!stop_) {
      const timespec wait{0, 100'000'000};
      const int signal = sigtimedwait(&set, nullptr, &wait);
      if (signal > 0) handler_(signal, ++count);
    }
  });
}

SignalWatcher::~SignalWatcher() {
  stop_ = true;
  thread_.join();
}

}  // namespace cairn::cli
