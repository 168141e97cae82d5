// SPDX-License-Identifier: Apache-2.0
// The planner actor: learns where overlaps end, solves beside inference, publishes immutable plans.
#pragma once

#include <memory>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/placement/forest_planner.hpp"
#include "engine/placement/planner.hpp"

namespace cairn::actors {

/// Owned by the planner actor, on its own thread: a solve may take as long as it likes.
class PlannerDesk {
 public:
  PlannerDesk(std::shared_ptr<Shared> shared, Mail& mail);

  void handle(const PlannerMessage& message);

 private:
  void on(const Observed& m);
  void follow(const Observed& m);
  void publish(std::shared_ptr<const engine::Plan> plan);
  void show(const engine::PlanCertificate& certificate) const;

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  engine::PlannerOptions options_;
  engine::DpPlanner planner_;
  engine::ForestPlanner forest_;
  bool gives_way_ = false;
  bool asked_ = false;  // for a replica
};

}  // namespace cairn::actors
