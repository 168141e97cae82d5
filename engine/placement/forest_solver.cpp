// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMostBytes = 9007199254740992.0;  // 2^53: sums of whole bytes stay exact
constexpr double kMostCost = 1e250;                // leaves room for prices and differences

Error bad(std::size_t node, const char* field, const std::string& expected) {
  const std::string param = "nodes[" + std::to_string(node) + "]." + field;
  return {ErrorCode::bad_request, "field '" + param + "': expected " + expected, param};
}

bool amount(double x) { return x >= 0 && std::isfinite(x); }

Status check_node(std::span<const ForestNode> nodes, std::size_t i) {
  const ForestNode& n = nodes[i];
  const auto count = static_cast<std::int64_t>(nodes.size());
  if (n.parent < -1 || n.parent >= count) {
    return bad(i, "parent",
               "-1 or the index of one of the " + std::to_string(count) + " nodes, got " +
                   std::to_string(n.parent));
  }
  const std::int64_t above = n.parent < 0 ? 0 : nodes[static_cast<std::size_t>(n.parent)].depth;
  if (n.depth <= above) {
    return bad(i, "depth",
               "more tokens than the " + std::to_string(above) + " of its parent (node " +
                   std::to_string(n.parent) + "), got " + std::to_string(n.depth));
  }
  if (!amount(n.demand)) return bad(i, "demand", "a finite number of at least 0");
  if (!amount(n.state_bytes)) return bad(i, "state_bytes", "a finite number of at least 0");
  if (!amount(n.edge_bytes)) return bad(i, "edge_bytes", "a finite number of at least 0");
  if (n.pinned && !n.can_hold) return bad(i, "pinned", "false where can_hold is false");
  return ok_status();
}

// Parents before children: as given where that holds already, else by depth, which grows downwards.
std::vector<std::int32_t> top_down(std::span<const ForestNode> nodes) {
  std::vector<std::int32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  const bool sorted = std::all_of(order.begin(), order.end(), [&](std::int32_t i) {
    return nodes[static_cast<std::size_t>(i)].parent < i;
  });
  if (!sorted) {
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return nodes[static_cast<std::size_t>(a)].depth < nodes[static_cast<std::size_t>(b)].depth;
    });
  }
  return order;
}

}  // namespace

Result<ForestSolver> ForestSolver::make(std::span<const ForestNode> nodes, CostModel cost) {
  check(nodes.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 4),
        "a forest's nodes are counted in 32 bits");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Status status = check_node(nodes, i);
    if (!status) return status.error();
  }
  ForestSolver solver;
  solver.cost_ = cost;
  solver.lay_out(nodes);
  solver.sum_up();
  double whole = 0;
  for (const Vertex& v : solver.vertices_) whole += v.demand * (1 + v.reach);
  if (!(whole <= kMostCost)) {
    return Error{ErrorCode::bad_request,
                 "field 'nodes': expected demands whose cost from the root sums to at most 1e250",
                 "nodes"};
  }
  if (!(solver.total_bytes_ <= kMostBytes)) {
    return Error{ErrorCode::bad_request,
                 "field 'nodes': expected states and KV of at most 2^53 bytes in all", "nodes"};
  }
  return solver;
}

void ForestSolver::lay_out(std::span<const ForestNode> nodes) {
  const std::size_t n = nodes.size();
  const std::vector<std::int32_t> order = top_down(nodes);
  std::vector<std::int32_t> size(n, 1);
  for (std::size_t i = n; i-- > 0;) {
    const auto v = static_cast<std::size_t>(order[i]);
    if (nodes[v].parent >= 0) size[static_cast<std::size_t>(nodes[v].parent)] += size[v];
  }
  rank_.resize(n);
  vertices_.resize(n);
  std::vector<std::int32_t> next(n);  // by node: rank of its next child
  std::int32_t next_root = 0;
  for (const std::int32_t i : order) {
    const auto v = static_cast<std::size_t>(i);
    const ForestNode& node = nodes[v];
    std::int32_t& slot = node.parent < 0 ? next_root : next[static_cast<std::size_t>(node.parent)];
    rank_[v] = slot;
    slot += size[v];
    next[v] = rank_[v] + 1;
    Vertex& out = vertices_[static_cast<std::size_t>(rank_[v])];
    out.parent = node.parent < 0 ? -1 : rank_[static_cast<std::size_t>(node.parent)];
    out.size = size[v];
    out.node = i;
    out.can_hold = node.can_hold;
    out.pinned = node.pinned;
    out.depth = static_cast<double>(node.depth);
    out.reach = cost_(out.depth);
    out.demand = node.demand;
    out.state_bytes = node.state_bytes;
    out.edge_bytes = node.edge_bytes;
  }
}

void ForestSolver::sum_up() {
  for (std::size_t r = vertices_.size(); r-- > 0;) {
    Vertex& v = vertices_[r];
    v.mass += v.demand;
    v.from_nothing += v.demand * v.reach;
    v.from_parent += v.mass * (v.reach - parent_reach(v));
    v.pinned_below |= v.pinned;
    total_bytes_ += v.edge_bytes + v.state_bytes;
    if (v.parent < 0) continue;
    Vertex& above = vertices_[static_cast<std::size_t>(v.parent)];
    above.mass += v.mass;
    above.from_nothing += v.from_nothing;
    above.from_parent += v.from_parent;
    above.pinned_below |= v.pinned_below;
  }
}

// Turns the sum of the children's functions on [0, reach] into A_v on [0, parent's reach].
void ForestSolver::settle(std::size_t rank, double price, Curve& curve) {
  const Vertex& v = vertices_[rank];
  Choice& choice = choices_[rank];
  choice = {0, kNever};
  const double end = parent_reach(v);
  curve.left += v.demand * v.reach;
  curve.falls_at_zero += v.demand;
  curve.falls += v.demand;
  const double served_here = curve.right;
  const double rise = pool_.shorten(curve, v.reach, end);
  const double state = price * v.state_bytes;
  if (v.pinned || (v.can_hold && rise > state)) {
    pool_.make_constant(curve, served_here + state);
    choice.hold_below = kNever;
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
  const std::size_t n = vertices_.size();
  choices_.resize(n);
  curves_.assign(n, Curve{});
  pool_.reset(2 * n);
  for (std::size_t r = n; r-- > 0;) {
    settle(r, price, curves_[r]);
    const std::int32_t parent = vertices_[r].parent;
    if (parent >= 0) pool_.add(curves_[static_cast<std::size_t>(parent)], curves_[r]);
  }
}

ForestSolver::Holds ForestSolver::holds_at(double price) {
  choose(price);
  Holds holds(vertices_.size(), 0);
  std::vector<double> near(vertices_.size());  // F of the deepest chosen at or above
  for (std::size_t r = 0; r < vertices_.size();) {
    const Vertex& v = vertices_[r];
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

ForestPlan ForestSolver::plan_of(const Holds& holds) const {
  ForestPlan plan;
  const std::size_t n = vertices_.size();
  std::vector<double> near(n);  // depth of the deepest chosen at or above
  for (std::size_t r = 0; r < n; ++r) {
    const Vertex& v = vertices_[r];
    const double above = v.parent < 0 ? 0 : near[static_cast<std::size_t>(v.parent)];
    near[r] = holds[r] != 0 ? v.depth : above;
    if (v.demand > 0) plan.cost += v.demand * cost_.between(near[r], v.depth);
  }
  Holds kept = holds;
  for (std::size_t r = n; r-- > 0;) {
    const Vertex& v = vertices_[r];
    if (kept[r] == 0) continue;
    plan.kept_edges.push_back(v.node);
    plan.bytes += v.edge_bytes;
    if (v.parent >= 0) kept[static_cast<std::size_t>(v.parent)] = 1;
    if (holds[r] == 0) continue;
    plan.states.push_back(v.node);
    plan.bytes += v.state_bytes;
  }
  std::sort(plan.states.begin(), plan.states.end());
  std::sort(plan.kept_edges.begin(), plan.kept_edges.end());
  return plan;
}

ForestPlan ForestSolver::solve_at(double price) {
  ForestPlan plan = plan_of(holds_at(price));
  plan.price = price;
  plan.bound = plan.cost;
  return plan;
}

ForestPlan ForestSolver::measure(std::span<const std::int32_t> states) const {
  Holds holds(vertices_.size(), 0);
  for (const std::int32_t s : states) {
    holds[static_cast<std::size_t>(rank_[static_cast<std::size_t>(s)])] = 1;
  }
  return plan_of(holds);
}

}  // namespace cairn::engine
