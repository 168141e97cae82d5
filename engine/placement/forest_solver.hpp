// SPDX-License-Identifier: Apache-2.0
// The whole prefix forest under one price or one budget of bytes: which nodes hold a state, and
// which KV is kept for them (placement.md section 3).
//
//   minimise  sum demand_v (F_v - F_near(v)) + price (bytes of states + bytes of kept edges)
//
// near(v) is the deepest chosen node at or above v, else the empty prefix. An edge is kept when a
// chosen node lies at or below its lower end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/concave_curve.hpp"
#include "engine/placement/dp.hpp"

namespace cairn::engine {

struct ForestNode {
  std::int32_t parent = -1;  // index of a node in any order; -1: the empty prefix, of depth 0
  std::int64_t depth = 0;    // tokens from the root, more than the parent's
  double demand = 0;         // requests per second whose overlap ends here
  double state_bytes = 0;    // of a state here
  double edge_bytes = 0;     // KV between the parent and here
  bool can_hold = true;
  bool pinned = false;  // holds a state whatever it costs
};

struct ForestPlan {
  std::vector<std::int32_t> states;      // indices of nodes, ascending
  std::vector<std::int32_t> kept_edges;  // nodes whose edge to the parent is kept, ascending
  double bytes = 0;
  double cost = 0;   // seconds of prefill per second; the price is not in it
  double price = 0;  // seconds of prefill per second and byte
  /// No plan of at most these bytes (solve_at: this plan's own; solve_within: the budget) costs
  /// less.
  double bound = 0;

  double gap() const { return cost - bound; }
  double gap_ratio() const { return cost > 0 ? gap() / cost : 0; }
  double lagrangian() const { return cost + price * bytes; }
};

/// Solves one forest as often as asked. Not thread-safe.
class ForestSolver {
 public:
  /// The error's `param` names the field as nodes[3].depth. A cycle shows as a depth that does not
  /// grow. Sums over all nodes must be finite, bytes exact in a double.
  static Result<ForestSolver> make(std::span<const ForestNode> nodes, CostModel cost);

  /// The exact optimum at a price >= 0, O(n log^2 n). Of equally good plans one without states that
  /// save nothing. price * (all bytes) must be finite.
  ForestPlan solve_at(double price);

  /// A plan of at most `budget_bytes` with the best bound that prices can give: exact prices, a
  /// splice of the two plans that are optimal at the last of them, and greedy filling. With one
  /// chain and free KV the plan is optimal. Fails when the pinned states do not fit.
  Result<ForestPlan> solve_within(double budget_bytes);

  /// Cost and bytes of holding exactly these states; bound and price stay 0.
  ForestPlan measure(std::span<const std::int32_t> states) const;

  double total_bytes() const { return total_bytes_; }  // every state and every edge

 private:
  friend class BudgetSearch;  // forest_budget.cpp

  // By rank in preorder: a subtree is [v, v + size), parents come before children.
  struct Vertex {
    std::int32_t parent = -1;
    std::int32_t size = 1;
    std::int32_t node = 0;
    bool can_hold = true;
    bool pinned = false;
    bool pinned_below = false;  // or here
    double depth = 0;
    double reach = 0;  // F(depth)
    double demand = 0;
    double state_bytes = 0;
    double edge_bytes = 0;
    double mass = 0;         // demand of the subtree
    double from_parent = 0;  // cost of the subtree's demand when the parent holds the nearest state
    double from_nothing = 0;  // the same when nothing above does
  };
  // What the best plan does depends on x = F(nearest chosen proper ancestor) only.
  struct Choice {
    double hold_below = 0;  // holds a state when x is less
    double drop_from = 0;   // nothing is kept in the subtree when x is at least this
  };
  using Holds = std::vector<char>;  // by rank

  ForestSolver() = default;
  void lay_out(std::span<const ForestNode> nodes);
  void sum_up();
  void choose(double price);
  void settle(std::size_t rank, double price, Curve& curve);
  Holds holds_at(double price);
  ForestPlan plan_of(const Holds& holds) const;
  double parent_reach(const Vertex& v) const {
    return v.parent < 0 ? 0 : vertices_[static_cast<std::size_t>(v.parent)].reach;
  }

  CostModel cost_;
  std::vector<Vertex> vertices_;
  std::vector<std::int32_t> rank_;  // by node
  std::vector<Choice> choices_;
  std::vector<Curve> curves_;
  CurvePool pool_;
  double total_bytes_ = 0;
};

}  // namespace cairn::engine
