// SPDX-License-Identifier: Apache-2.0
// The actor system of one engine: spawns the actors, carries their mail, watches and replaces them.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"

namespace cairn::actors {

/// Thread-safe Mail. A planner, checkpoints, disk, prefix, router or worker that dies is replaced
/// at once, empty; an executor at most once a minute (Shared::executor_up says whether there is
/// one), and not when the device is lost. Every death is counted and logged.
class Runtime : public Mail {
 public:
  explicit Runtime(std::shared_ptr<Shared> shared);
  ~Runtime() override;  // stops what stop() has not

  void router(RouterMessage message) override;
  void router_after(std::chrono::milliseconds delay, RouterMessage message) override;
  void prefix(PrefixMessage message) override;
  void prefix_after(std::chrono::milliseconds delay, PrefixMessage message) override;
  void planner(PlannerMessage message) override;
  void executor(ExecutorMessage message) override;
  void executor_urgent(ExecutorMessage message) override;
  void checkpoints(CheckpointMessage message) override;
  void disk(DiskMessage message) override;
  void disk_after(std::chrono::milliseconds delay, DiskMessage message) override;
  /// Indices below text_workers serve streams, those from there on prepare prompts, on threads of
  /// their own: a long prompt holds up nobody's answer.
  void worker(int index, WorkerMessage message) override;

  /// Opens the ticket and hands it to the router; false when there is no router just now.
  bool submit(TicketPtr ticket, EventSink sink);

  /// For tests: that actor throws at its next message. Nothing in builds without failpoints.
  void kill(Role role, int worker = 0);
  /// Sends exits in the order of dependence and waits; returns the actors that did not end in time.
  std::vector<std::string> stop(std::chrono::milliseconds deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::actors
