// SPDX-License-Identifier: Apache-2.0
// How actors reach one another. The logic of each actor sees only this, so that it runs in a test
// without threads.
#pragma once

#include <chrono>

#include "actors/messages.hpp"

namespace cairn::actors {

/// Thread-safe. Sending never blocks and never fails; mail for a dead actor is dropped.
class Mail {
 public:
  virtual ~Mail() = default;
  virtual void router(RouterMessage message) = 0;
  virtual void router_after(std::chrono::milliseconds delay, RouterMessage message) = 0;
  virtual void prefix(PrefixMessage message) = 0;
  virtual void prefix_after(std::chrono::milliseconds delay, PrefixMessage message) = 0;
  virtual void planner(PlannerMessage message) = 0;
  virtual void executor(ExecutorMessage message) = 0;
  /// Overtakes what waits in the mailbox: cancels.
  virtual void executor_urgent(ExecutorMessage message) = 0;
  virtual void checkpoints(CheckpointMessage message) = 0;
  virtual void disk(DiskMessage message) = 0;
  virtual void disk_after(std::chrono::milliseconds delay, DiskMessage message) = 0;
  virtual void worker(int index, WorkerMessage message) = 0;
};

}  // namespace cairn::actors
