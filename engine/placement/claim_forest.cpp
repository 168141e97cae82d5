// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/claim_forest.hpp"

#include <algorithm>

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
  for (PlanNode n = 1; n < tree.slots(); ++n) {
    if (tree[n].used && tree[n].claim != Claim::none) mark(tree, n);
  }
  for (const PlanNode n : touched_) {
    if (tree[n].claim == Claim::none && children_[n] < 2) continue;
    index_[n] = static_cast<std::int32_t>(nodes_.size());
    of_.push_back(n);
    nodes_.emplace_back();
  }
  const ByteCosts& costs = tree.costs();
  const auto bytes = [&](std::int64_t blocks) {
    return static_cast<double>(blocks * costs.kv_block) *
           static_cast<double>(costs.kv_bytes_per_token);
  };
  for (const PlanNode n : of_) nodes_[static_cast<std::size_t>(index_[n])].demand = demand.mass(n);
  for (const PlanNode n : of_) {
    DemandNode& node = nodes_[static_cast<std::size_t>(index_[n])];
    PlanNode up = tree[n].parent;
    while (up != kPlanRoot && tree[up].claim == Claim::none && children_[up] < 2) {
      up = tree[up].parent;
    }
    const std::int32_t depth = tree[n].depth;
    node.parent = up == kPlanRoot ? -1 : index_[up];
    node.depth = depth;
    node.edge_bytes = bytes(depth / costs.kv_block - tree[up].depth / costs.kv_block);
    node.can_hold = tree[n].claim != Claim::none;
    node.pinned = node.can_hold && !usable(n);
    node.state_bytes =
        static_cast<double>(costs.state_bytes) + bytes(depth % costs.kv_block != 0 ? 1 : 0);
    if (node.parent >= 0) {
      nodes_[static_cast<std::size_t>(node.parent)].demand -= demand.mass(n);
    }
  }
  // Differences of sums can end a rounding error below nothing.
  for (DemandNode& node : nodes_) node.demand = std::max(node.demand, 0.0);
}

std::vector<PlanNode> ClaimForest::left_out(const PlanTree& tree, const DemandForest& demand,
                                            CostModel cost, double budget,
                                            const std::function<bool(PlanNode)>& usable) {
  compress(tree, demand, usable);
  std::vector<PlanNode> out;
  auto solver = ForestSolver::make(nodes_, cost);
  if (!solver.ok()) return out;
  const auto plan = solver->solve_within(budget);
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
