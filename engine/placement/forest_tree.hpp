// SPDX-License-Identifier: Apache-2.0
// The exact solver on the planner's own tree: only nodes that may hold a state and the forks
// between them are solved for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/forest_solver.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

/// Whether a plan may hold a state at a node. A state that was never computed cannot be held; one
/// that live work uses must be.
enum class Hold : std::uint8_t { never, may, must };

/// A node as the solver takes it, below `above`, its next ancestor that is left; parent and demand
/// are the caller's. Bytes are the tree's own: whole KV blocks, and one of its own for a state that
/// ends inside one.
DemandNode demand_node(const PlanTree& tree, PlanNode node, PlanNode above, Hold hold);

/// A tree without the nodes that make no difference to any plan.
struct CompressedTree {
  std::vector<DemandNode> nodes;  // parents first
  std::vector<PlanNode> of;       // by node: its place in the tree
  /// Cost of the demand below the nodes that are left, down from the nearest of them; the same for
  /// every plan.
  double sunk_cost = 0;
};

/// `rates`: requests per second whose overlap ends at a slot, finite; what rounding has left below
/// 0 counts as 0. Their demand moves up to the nearest node that is left. Bytes are the tree's own:
/// whole KV blocks, and one of its own for a state that ends inside one. O(tree size).
CompressedTree compress_tree(const PlanTree& tree, std::span<const double> rates,
                             const std::function<Hold(PlanNode)>& hold, CostModel cost);

struct TreePlan {
  std::vector<PlanNode> states;  // parents before children
  double bytes = 0;
  double cost = 0;   // of all demand
  double bound = 0;  // no plan within the budget costs less
  double price = 0;  // that proves the bound

  double gap() const { return cost - bound; }
  double gap_ratio() const { return cost > 0 ? gap() / cost : 0; }
};

/// ForestSolver::solve_within on the compressed tree. Fails when what must be held does not fit.
Result<TreePlan> solve_tree(const PlanTree& tree, std::span<const double> rates,
                            const std::function<Hold(PlanNode)>& hold, CostModel cost,
                            double budget_bytes, Effort effort = Effort::exchange);

/// Cost of holding states exactly where `held` says: beside a bound it is what a standing plan is
/// certified by. O(tree size).
double tree_cost(const PlanTree& tree, std::span<const double> rates,
                 const std::function<bool(PlanNode)>& held, CostModel cost);

}  // namespace cairn::engine
