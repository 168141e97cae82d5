// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_tree.hpp"

#include <cmath>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

// By slot: holds a state in some plan, or paths to such nodes part here. The root never does.
std::vector<char> left_nodes(const PlanTree& tree, const std::vector<PlanNode>& order,
                             const std::vector<Hold>& holds) {
  std::vector<char> left(tree.slots(), 0);
  std::vector<std::int32_t> paths(tree.slots(), 0);  // children with a node that is left
  for (std::size_t i = order.size(); i-- > 1;) {
    const PlanNode n = order[i];
    left[n] = holds[n] != Hold::never || paths[n] > 1 ? 1 : 0;
    if (left[n] != 0 || paths[n] > 0) ++paths[tree[n].parent];
  }
  return left;
}

}  // namespace

DemandNode demand_node(const PlanTree& tree, PlanNode node, PlanNode above, Hold hold) {
  const ByteCosts& bytes = tree.costs();
  const auto block = static_cast<double>(bytes.kv_bytes_per_token) * bytes.kv_block;
  const std::int32_t depth = tree[node].depth;
  DemandNode n;
  n.depth = depth;
  n.state_bytes =
      static_cast<double>(bytes.state_bytes) + (depth % bytes.kv_block != 0 ? block : 0);
  const std::int32_t blocks = depth / bytes.kv_block - tree[above].depth / bytes.kv_block;
  n.edge_bytes = block * blocks;
  n.can_hold = hold != Hold::never;
  n.pinned = hold == Hold::must;
  return n;
}

CompressedTree compress_tree(const PlanTree& tree, std::span<const double> rates,
                             const std::function<Hold(PlanNode)>& hold, CostModel cost) {
  check(rates.size() >= tree.slots(), "every slot has a rate");
  std::vector<PlanNode> order;
  tree.top_down(order);
  std::vector<Hold> holds(tree.slots(), Hold::never);
  for (std::size_t i = 1; i < order.size(); ++i) holds[order[i]] = hold(order[i]);
  const std::vector<char> left = left_nodes(tree, order, holds);

  CompressedTree out;
  std::vector<std::int32_t> near(tree.slots(), -1);  // compressed index at or above
  for (std::size_t i = 1; i < order.size(); ++i) {
    const PlanNode n = order[i];
    check(std::isfinite(rates[n]), "rates are finite");
    const std::int32_t above = near[tree[n].parent];
    near[n] = above;
    if (left[n] != 0) {
      near[n] = static_cast<std::int32_t>(out.nodes.size());
      const PlanNode from = above < 0 ? kPlanRoot : out.of[static_cast<std::size_t>(above)];
      out.nodes.push_back(demand_node(tree, n, from, holds[n]));
      out.nodes.back().parent = above;
      out.of.push_back(n);
    }
    if (!(rates[n] > 0)) continue;
    double from = 0;
    if (near[n] >= 0) {
      DemandNode& at = out.nodes[static_cast<std::size_t>(near[n])];
      at.demand += rates[n];
      from = static_cast<double>(at.depth);
    }
    out.sunk_cost += rates[n] * cost.between(from, tree[n].depth);
  }
  return out;
}

Result<TreePlan> solve_tree(const PlanTree& tree, std::span<const double> rates,
                            const std::function<Hold(PlanNode)>& hold, CostModel cost,
                            double budget_bytes, Effort effort) {
  const CompressedTree compressed = compress_tree(tree, rates, hold, cost);
  auto solver = ForestSolver::make(compressed.nodes, cost);
  if (!solver) return solver.error();
  const auto plan = solver->solve_within(budget_bytes, effort);
  if (!plan) return plan.error();
  TreePlan out;
  for (const std::int32_t s : plan->states) {
    out.states.push_back(compressed.of[static_cast<std::size_t>(s)]);
  }
  out.bytes = plan->bytes;
  out.cost = plan->cost + compressed.sunk_cost;
  out.bound = plan->bound + compressed.sunk_cost;
  out.price = plan->price;
  return out;
}

double tree_cost(const PlanTree& tree, std::span<const double> rates,
                 const std::function<bool(PlanNode)>& held, CostModel cost) {
  check(rates.size() >= tree.slots(), "every slot has a rate");
  std::vector<PlanNode> order;
  tree.top_down(order);
  std::vector<std::int32_t> near(tree.slots(), 0);  // depth of the nearest state at or above
  double total = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const PlanNode n = order[i];
    near[n] = held(n) ? tree[n].depth : near[tree[n].parent];
    if (rates[n] > 0) total += rates[n] * cost.between(near[n], tree[n].depth);
  }
  return total;
}

}  // namespace cairn::engine
