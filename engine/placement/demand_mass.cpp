// SPDX-License-Identifier: Apache-2.0
// Sums over subtrees, kept while rates, claims and edges change.
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "engine/placement/demand_forest.hpp"

namespace cairn::engine {

void DemandForest::set_rate(PlanNode node, double rate) {
  add_mass(node, rate - points_[node].rate);
  points_[node].rate = rate;
}

void DemandForest::add_mass(PlanNode node, double by) {
  double below = 0;  // what of `by` is served below
  for (PlanNode n = node; n != kNoPlanNode; n = tree_[n].parent) {
    points_[n].mass += by;
    points_[n].below += below;
    if (tree_[n].claim != Claim::none) below = by;
  }
}

// What claims strictly below `node` serve has changed; a claim hides that from those above it.
void DemandForest::add_below(PlanNode node, double by) {
  for (PlanNode n = node; n != kNoPlanNode; n = tree_[n].parent) {
    points_[n].below += by;
    if (tree_[n].claim != Claim::none) break;
  }
}

// Each atom to the deepest node at or above it. `masses` false: sums are recounted afterwards.
void DemandForest::spread(const Young& young, double by, bool masses) {
  PlanNode n = young.end;
  // Mostly nothing has come between: all are nearest to where the prompt left what was known.
  const PlanNode above = tree_[n].parent;
  if (points_[above].prompt != static_cast<std::int32_t>(&young - young_.data())) {
    for (std::size_t i = 0; i < young.atoms.size(); ++i) {
      points_[above].atoms += by;
      if (masses) add_mass(above, by);
    }
    return;
  }
  for (auto x = young.atoms.rbegin(); x != young.atoms.rend(); ++x) {
    while (tree_[n].depth > *x) n = tree_[n].parent;
    points_[n].atoms += by;
    if (masses) add_mass(n, by);
  }
}

void DemandForest::split_edge(const TreeOp& op) {
  Point& p = points_[op.node];
  const Point& lower = points_[op.other];
  p = Point{};
  p.mass = lower.mass;
  p.below = tree_[op.other].claim != Claim::none ? lower.mass : lower.below;
  p.prompt = lower.prompt;
  p.born = lower.born;
  if (p.prompt < 0) return;
  // Atoms that now have a nearer node.
  const Young& young = young_[static_cast<std::size_t>(p.prompt)];
  const std::int32_t end = tree_[op.other].depth;
  const auto moved = std::count_if(young.atoms.begin(), young.atoms.end(),
                                   [&](std::int32_t x) { return x >= op.depth && x < end; });
  const double by = young.each * static_cast<double>(moved);
  points_[tree_[op.node].parent].atoms -= by;
  p.atoms += by;
  p.mass += by;
}

void DemandForest::recount(std::vector<Point>& points) const {
  std::vector<PlanNode> order;
  tree_.top_down(order);
  for (const PlanNode n : order) {
    points[n].mass = points[n].rate + points[n].atoms;
    points[n].below = 0;
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const PlanNode parent = tree_[*it].parent;
    if (parent == kNoPlanNode) continue;
    const Point& p = points[*it];
    points[parent].mass += p.mass;
    points[parent].below += tree_[*it].claim != Claim::none ? p.mass : p.below;
  }
}

void DemandForest::verify() const {
  std::vector<Point> fresh = points_;
  recount(fresh);
  const double slack = 1e-9 * (1 + std::abs(fresh[kPlanRoot].mass));
  std::vector<PlanNode> order;
  tree_.top_down(order);
  for (const PlanNode n : order) {
    check(std::abs(fresh[n].mass - points_[n].mass) <= slack, "a subtree's rate is off");
    check(std::abs(fresh[n].below - points_[n].below) <= slack, "a claim's share is off");
  }
  for (std::size_t i = 0; i < active_.size(); ++i) {
    check(points_[active_[i]].at == static_cast<std::int32_t>(i), "a point is listed elsewhere");
  }
}

}  // namespace cairn::engine
