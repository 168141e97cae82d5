// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_planner.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "engine/placement/forest_tree.hpp"

namespace cairn::engine {

void ForestPlanner::start(std::shared_ptr<PlanReplica> replica, std::uint64_t budget) {
  replica_ = std::move(replica);
  budget_ = budget;
  due_ = false;
}

void ForestPlanner::apply(std::span<const PlanEvent> events) {
  check(started(), "events came before the tree that they change");
  for (const PlanEvent& event : events) {
    if (!event.is_request) {
      replica_->tree.apply(event.op);
    } else {
      ++requests_;
      due_ |= replica_->demand.observe(event.request);
    }
  }
}

// What is kept against the best that could be kept of it, or of it and the places that running
// requests will save at, under the rates of this moment.
PlanCertificate ForestPlanner::certify() const {
  const PlanTree& tree = replica_->tree;
  std::vector<double> rates(tree.slots(), 0);
  for (PlanNode n = 0; n < tree.slots(); ++n) {
    if (tree[n].used) rates[n] = replica_->demand.own_rate(n);
  }
  const auto claimed = [&](PlanNode n) { return tree.claimed(n); };
  const auto hold = [&](PlanNode n) { return claimed(n) ? Hold::may : Hold::never; };
  const auto budget = static_cast<double>(std::max(budget_, tree.bytes()));
  PlanCertificate c;
  c.claims = tree.claims();
  c.bytes = tree.bytes();
  c.cost = tree_cost(tree, rates, claimed, costs_.prefill);
  const auto best = solve_tree(tree, rates, hold, costs_.prefill, budget, Effort::fill);
  check(best.ok(), "what is kept does not fit its own bytes");
  c.best = best->cost;
  c.bound = best->bound;
  // With everything that was ever seen to choose from, computed or not.
  const auto anything = [](PlanNode) { return Hold::may; };
  const auto ideal = solve_tree(tree, rates, anything, costs_.prefill, budget, Effort::bound);
  check(ideal.ok(), "a plan without pinned states always fits");
  c.ideal = ideal->bound;
  return c;
}

std::shared_ptr<const Plan> ForestPlanner::solve() {
  check(!hit_failpoint("planner.solve"), "the planner was told to fail");
  check(started(), "there is nothing to plan for yet");
  const auto start = std::chrono::steady_clock::now();
  if (requests_ >= certified_at_ + options_.certify_every || certified_at_ == 0) {
    certificate_ = certify();
    certified_at_ = requests_;
  }
  auto plan = std::make_shared<Plan>();
  plan->epoch = ++epoch_;
  plan->observations = requests_;
  plan->rates = replica_->demand.rates();
  plan->certificate = certificate_;
  const double token = costs_.prefill(1);
  plan->expected_recompute_tokens = token > 0 ? certificate_.cost / token : 0;
  plan->solve_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  due_ = false;
  return plan;
}

}  // namespace cairn::engine
