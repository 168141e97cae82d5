// SPDX-License-Identifier: Apache-2.0
// The planner actor: learns where overlaps end, solves beside inference, publishes immutable plans.
#pragma once

#include <memory>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/placement/planner.hpp"

namespace cairn::actors {

/// Owned by the planner actor, on its own thread: a solve may take as long as it likes.
class PlannerDesk {
 public:
  PlannerDesk(std::shared_ptr<Shared> shared, Mail& mail);

  void handle(const PlannerMessage& message);

 private:
  void on(const Observed& m);
  void solve_and_publish();

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  engine::PlannerOptions options_;
  engine::DpPlanner planner_;
};

}  // namespace cairn::actors
