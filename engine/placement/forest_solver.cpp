// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_solver.hpp"

#include <cmath>
#include <utility>

namespace cairn::engine {

Result<ForestSolver> ForestSolver::make(std::span<const DemandNode> nodes, CostModel cost) {
  auto layout = lay_out_forest(nodes, cost);
  if (!layout) return layout.error();
  return ForestSolver(layout.take());
}

// Turns the sum of the children's functions on [0, reach] into A_v on [0, parent's reach].
void ForestSolver::settle(std::size_t rank, double price, Curve& curve) {
  const ForestLayout::Vertex& v = layout_.vertices[rank];
  Choice& choice = choices_[rank];
  choice = {0, HUGE_VAL};
  const double end = v.parent_reach;
  curve.left += v.demand * v.reach;
  curve.falls_at_zero += v.demand;
  curve.falls += v.demand;
  const double served_here = curve.right;
  const double rise = pool_.shorten(curve, v.reach, end);
  const double state = price * v.state_bytes;
  if (v.pinned || (v.can_hold && rise > state)) {
    pool_.make_constant(curve, served_here + state);
    choice.hold_below = HUGE_VAL;
  } else if (v.can_hold) {
    choice.hold_below = pool_.cap(curve, end, served_here + state);
  }
  const double edge = price * v.edge_bytes;
  const double below = curve.right + edge - v.from_parent;
  curve.left += edge;
  curve.right += edge;
  if (!v.pinned_below && below >= 0) {
    choice.drop_from = pool_.undercut(curve, end, below, v.mass, v.from_nothing);
  }
}

void ForestSolver::choose(double price) {
  const std::size_t n = layout_.vertices.size();
  choices_.resize(n);
  curves_.assign(n, Curve{});
  pool_.reset(2 * n);
  for (std::size_t r = n; r-- > 0;) {
    settle(r, price, curves_[r]);
    const std::int32_t parent = layout_.vertices[r].parent;
    if (parent >= 0) pool_.add(curves_[static_cast<std::size_t>(parent)], curves_[r]);
  }
}

ForestHolds ForestSolver::holds_at(double price) {
  choose(price);
  ForestHolds holds(layout_.vertices.size(), 0);
  std::vector<double> near(layout_.vertices.size());  // F of the deepest chosen at or above
  for (std::size_t r = 0; r < layout_.vertices.size();) {
    const ForestLayout::Vertex& v = layout_.vertices[r];
    const double x = v.parent < 0 ? 0 : near[static_cast<std::size_t>(v.parent)];
    if (x >= choices_[r].drop_from) {
      r += static_cast<std::size_t>(v.size);
      continue;
    }
    holds[r] = x < choices_[r].hold_below ? 1 : 0;
    near[r] = holds[r] != 0 ? v.reach : x;
    ++r;
  }
  return holds;
}

ForestPlan ForestSolver::solve_at(double price) {
  ForestPlan plan = plan_of(layout_, holds_at(price));
  plan.price = price;
  plan.bound = plan.cost;
  return plan;
}

ForestPlan ForestSolver::measure(std::span<const std::int32_t> states) const {
  ForestHolds holds(layout_.vertices.size(), 0);
  for (const std::int32_t s : states) {
    holds[static_cast<std::size_t>(layout_.rank[static_cast<std::size_t>(s)])] = 1;
  }
  return plan_of(layout_, holds);
}

}  // namespace cairn::engine
