// SPDX-License-Identifier: Apache-2.0
// The planner beside the default rule, without its actor: a replica of the plan tree that learns
// the same tables, and certifies what is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/placement/plan_log.hpp"
#include "engine/placement/planner.hpp"

namespace cairn::engine {

struct ForestPlannerOptions {
  /// Requests between certificates; each costs an exact solve of the forest.
  std::uint64_t certify_every = 256;
};

/// Owned by one thread (the planner actor, the simulator).
class ForestPlanner {
 public:
  explicit ForestPlanner(ForestPlannerOptions options = {}) : options_(options) {}

  bool started() const { return replica_ != nullptr; }
  /// `budget`: bytes of all claims; 0: what is held is what fits.
  void start(std::shared_ptr<PlanReplica> replica, std::uint64_t budget);
  void learn_costs(const PolicyCosts& costs) { costs_ = costs; }
  /// Throws InvariantError when the replica went another way than its original.
  void apply(std::span<const PlanEvent> events);

  /// There are new rates since the last plan.
  bool due() const { return due_; }
  /// Rates, and the newest certificate. Never null. The failpoint "planner.solve" can hold it; as
  /// "fail" it throws InvariantError.
  std::shared_ptr<const Plan> solve();

 private:
  PlanCertificate certify() const;

  ForestPlannerOptions options_;
  std::shared_ptr<PlanReplica> replica_;
  PolicyCosts costs_;
  std::uint64_t budget_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t certified_at_ = 0;
  std::uint64_t epoch_ = 0;
  bool due_ = false;
  PlanCertificate certificate_;
};

}  // namespace cairn::engine
