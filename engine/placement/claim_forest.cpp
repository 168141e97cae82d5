// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/claim_forest.hpp"

#include <algorithm>

#include "engine/placement/forest_tree.hpp"

namespace cairn::engine {

// Up to the first node that another claim's path has touched already.
void ClaimForest::mark(const PlanTree& tree, PlanNode claim) {
  for (PlanNode n = claim; n != kPlanRoot; n = tree[n].parent) {
    const bool before = stamp_[n] == call_;
    if (!before) {
      stamp_[n] = call_;
      children_[n] = 0;
      touched_.push_back(n);
    }
    if (n != claim) ++children_[n];
    if (before) return;
  }
}

void ClaimForest::compress(const PlanTree& tree, const DemandForest& demand,
                           const std::function<bool(PlanNode)>& usable) {
  stamp_.resize(tree.slots());
  children_.resize(tree.slots());
  index_.resize(tree.slots());
  ++call_;
  touched_.clear();
  of_.clear();
  nodes_.clear();
  claimed_ = tree.claimed();
  std::sort(claimed_.begin(), claimed_.end());  // equally good plans are told apart by slots
  for (const PlanNode n : claimed_) mark(tree, n);
  for (const PlanNode n : touched_) {
    if (!tree.claimed(n) && children_[n] < 2) continue;
    index_[n] = static_cast<std::int32_t>(of_.size());
    of_.push_back(n);
  }
  for (const PlanNode n : of_) {
    PlanNode up = tree[n].parent;
    while (up != kPlanRoot && !tree.claimed(up) && children_[up] < 2) {
      up = tree[up].parent;
    }
    const Hold hold = !tree.claimed(n) ? Hold::never : usable(n) ? Hold::may : Hold::must;
    DemandNode node = demand_node(tree, n, up, hold);
    node.demand = demand.mass(n);
    if (up != kPlanRoot) node.parent = index_[up];
    nodes_.push_back(node);
  }
  // What children stand for is taken off their parents, which can come after them.
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent < 0) continue;
    nodes_[static_cast<std::size_t>(nodes_[i].parent)].demand -= demand.mass(of_[i]);
  }
  // Differences of sums can end a rounding error below nothing.
  for (DemandNode& node : nodes_) node.demand = std::max(node.demand, 0.0);
}

std::vector<PlanNode> ClaimForest::left_out(const PlanTree& tree, const DemandForest& demand,
                                            CostModel cost, double budget, double byte_worth,
                                            const std::function<bool(PlanNode)>& usable) {
  compress(tree, demand, usable);
  std::vector<PlanNode> out;
  auto solver = ForestSolver::make(nodes_, cost);
  if (!solver.ok()) return out;
  const auto plan = solver->solve_within(budget, Effort::exchange, byte_worth);
  if (!plan.ok()) return out;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    if (!nodes_[i].can_hold) continue;
    if (!std::binary_search(plan->states.begin(), plan->states.end(), node)) {
      out.push_back(of_[i]);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](PlanNode a, PlanNode b) { return demand.served(a) < demand.served(b); });
  return out;
}

}  // namespace cairn::engine
