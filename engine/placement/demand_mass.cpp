// SPDX-License-Identifier: Apache-2.0
// Sums over subtrees, kept while rates, claims and edges change.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "engine/placement/demand_forest.hpp"

namespace cairn::engine {
namespace {

constexpr std::size_t kAhead = 16;  // nodes: their memory is asked for while others are added up

}  // namespace

void DemandForest::list(PlanNode node, Listed in) {
  if ((listed_[node] & in) != 0) return;
  listed_[node] |= in;
  (in == kSummed ? summed_ : rated_).push_back(node);
}

// Appends what is new of the path, its upper end first: while the tree keeps its shape, parents
// come before children.
void DemandForest::list_path(PlanNode node) {
  if ((listed_[node] & kSummed) != 0) return;
  const PlanNode parent = tree_.parent(node);
  if (parent == kNoPlanNode || (listed_[parent] & kSummed) != 0) {
    list(node, kSummed);
    return;
  }
  const auto before = static_cast<std::ptrdiff_t>(summed_.size());
  for (PlanNode n = node; n != kNoPlanNode && (listed_[n] & kSummed) == 0; n = tree_.parent(n)) {
    list(n, kSummed);
  }
  std::reverse(summed_.begin() + before, summed_.end());
}

// Lists what had a sum anew, in the order of the last sweep: parents come first there already but
// for the few that were split since, so that hardly any path is walked. 30 bytes a node; of these
// only the sums' 16 lie outside a core's own cache at 100,000 nodes: they are asked for ahead.
void DemandForest::restart_sums() {
  for (std::uint8_t& listed : listed_) listed &= kEnd;
  summed_last_.clear();
  summed_last_.swap(summed_);
  for (std::size_t i = 0; i < summed_last_.size(); ++i) {
    if (i + kAhead < summed_last_.size()) {
      __builtin_prefetch(&sums_[summed_last_[i + kAhead]]);
    }
    const PlanNode n = summed_last_[i];
    if (std::exchange(sums_[n], {}).mass != 0) list_path(n);
  }
  for (const PlanNode n : rated_) points_[n].rate = points_[n].atoms = 0;
  rated_.clear();
}

void DemandForest::sum_up() {
  for (const PlanNode n : rated_) sums_[n].mass = points_[n].rate + points_[n].atoms;
  add_upwards(sums_, summed_);
}

// Sums that hold what is each node's own so far. 24 bytes and three additions a node, and its
// parent's 16, which mostly comes next.
void DemandForest::add_upwards(std::vector<Sums>& sums, std::span<const PlanNode> top_down) const {
  for (std::size_t i = top_down.size(); i-- > 0;) {
    if (i >= kAhead) {
      __builtin_prefetch(&sums[top_down[i - kAhead]]);
    }
    const PlanNode n = top_down[i];
    const PlanNode parent = tree_.parent(n);
    if (parent == kNoPlanNode) continue;
    const Sums s = sums[n];
    sums[parent].mass += s.mass;
    sums[parent].below += tree_.claimed(n) ? s.mass : s.below;
  }
}

void DemandForest::set_rate(PlanNode node, double rate) {
  list(node, kRated);
  add_mass(node, rate - points_[node].rate);
  points_[node].rate = rate;
}

void DemandForest::add_atoms(PlanNode node, double by) {
  list(node, kRated);
  points_[node].atoms += by;
}

void DemandForest::add_mass(PlanNode node, double by) {
  double below = 0;  // what of `by` is served below
  for (PlanNode n = node; n != kNoPlanNode; n = tree_.parent(n)) {
    list(n, kSummed);
    sums_[n].mass += by;
    sums_[n].below += below;
    if (tree_.claimed(n)) below = by;
  }
}

// What claims strictly below `node` serve has changed; a claim hides that from those above it.
void DemandForest::add_below(PlanNode node, double by) {
  for (PlanNode n = node; n != kNoPlanNode; n = tree_.parent(n)) {
    sums_[n].below += by;
    if (tree_.claimed(n)) break;
  }
}

// Each atom to the deepest node at or above it. `masses` false: sums are recounted afterwards.
void DemandForest::spread(const Young& young, double by, bool masses) {
  PlanNode n = young.end;
  // Mostly nothing has come between: all are nearest to where the prompt left what was known.
  const PlanNode above = tree_[n].parent;
  if (!masses) list_path(above);
  if (points_[above].prompt != static_cast<std::int32_t>(&young - young_.data())) {
    const double all = by * static_cast<double>(young.atoms.size());
    add_atoms(above, all);
    if (masses) add_mass(above, all);
    return;
  }
  for (auto x = young.atoms.rbegin(); x != young.atoms.rend();) {
    while (tree_[n].depth > *x) n = tree_.parent(n);
    double here = 0;
    for (; x != young.atoms.rend() && *x >= tree_[n].depth; ++x) here += by;
    add_atoms(n, here);
    if (masses) add_mass(n, here);
  }
}

void DemandForest::split_edge(const TreeOp& op) {
  Point& p = points_[op.node];
  const Point& lower = points_[op.other];
  p = Point{};
  const Sums& under = sums_[op.other];
  list(op.node, kSummed);
  sums_[op.node] = {under.mass, tree_.claimed(op.other) ? under.mass : under.below};
  p.prompt = lower.prompt;
  p.born = lower.born;
  if (p.prompt < 0) return;
  // Atoms that now have a nearer node.
  const Young& young = young_[static_cast<std::size_t>(p.prompt)];
  const std::int32_t end = tree_[op.other].depth;
  const auto moved = std::count_if(young.atoms.begin(), young.atoms.end(),
                                   [&](std::int32_t x) { return x >= op.depth && x < end; });
  const double by = young.each * static_cast<double>(moved);
  add_atoms(tree_[op.node].parent, -by);
  add_atoms(op.node, by);
  sums_[op.node].mass += by;
}

void DemandForest::verify() const {
  std::vector<PlanNode> order;
  tree_.top_down(order);
  std::vector<Sums> fresh(points_.size());
  for (const PlanNode n : order) fresh[n].mass = own_rate(n);
  add_upwards(fresh, order);
  const double slack = 1e-9 * (1 + std::abs(fresh[kPlanRoot].mass));
  for (const PlanNode n : order) {
    check(std::abs(fresh[n].mass - sums_[n].mass) <= slack, "a subtree's rate is off");
    check(std::abs(fresh[n].below - sums_[n].below) <= slack, "a claim's share is off");
    check(sums_[n].mass == 0 || (listed_[n] & kSummed) != 0, "a sum that no sweep would clear");
    check((points_[n].kind == PointKind::end) == ((listed_[n] & kEnd) != 0),
          "an end that walks do not see");
    check(own_rate(n) == 0 || (listed_[n] & kRated) != 0, "a rate that no sweep would clear");
  }
  for (std::size_t i = 0; i < active_.size(); ++i) {
    check(points_[active_[i]].at == static_cast<std::int32_t>(i), "a point is listed elsewhere");
  }
}

}  // namespace cairn::engine
