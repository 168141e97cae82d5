// SPDX-License-Identifier: Apache-2.0
// The executor actor: owns the device and the continuous batch on a thread of its own. Mail is
// taken between steps, so a cancel takes effect within one step; it waits for nobody while it has
// work.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/placement/cost_fit.hpp"

namespace cairn::actors {

/// Owned by the executor actor. An exception out of handle() means that the device or an invariant
/// broke: every admitted sequence is lost with this object, their memory returns by itself.
class ExecutorDesk {
 public:
  ExecutorDesk(std::shared_ptr<Shared> shared, Mail& mail);
  ~ExecutorDesk();

  void handle(const ExecutorMessage& message);

 private:
  void on(const Admit& m);
  void on(const CancelSequence& m);
  void on(const AddSave& m);
  void on(const BlocksGranted& m);
  void on(const PrefixReplaced& m);
  void on(const CancelAll& m);
  void on(const Step& m);

  void schedule();  // sees to it that a Step is in the mailbox while there is work
  void tell_pools();
  void deliver(engine::StepReport& report);
  void send_tokens(engine::StepReport& report);
  void send_saves(engine::StepReport& report);
  static void learn(std::atomic<double>& average, double now);
  void measure(const engine::StepReport& report);
  void measure_restores(const engine::StepReport& report);

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  std::unique_ptr<model::Backend> backend_;
  std::unique_ptr<engine::BatchLoop> loop_;
  engine::CostFit cost_;
  std::vector<StepTokens> outbox_;  // by worker
  bool quiet_ = true;               // as told to the pools
  bool step_pending_ = false;
  bool stalled_ = false;       // nothing can run before prefix answers
  bool blocks_asked_ = false;  // one question to prefix at a time
};

}  // namespace cairn::actors
