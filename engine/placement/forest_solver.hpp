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
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/concave_curve.hpp"
#include "engine/placement/forest_layout.hpp"

namespace cairn::engine {

/// What is done for a budget's plan once the bound is known: nothing more, filling what is left
/// over, or exchanging single states as well.
enum class Effort : std::uint8_t { bound, fill, exchange };

/// Solves one forest as often as asked. Not thread-safe.
class ForestSolver {
 public:
  /// Fails as lay_out_forest does.
  static Result<ForestSolver> make(std::span<const DemandNode> nodes, CostModel cost);

  /// The exact optimum at a price >= 0, O(n log n). Of equally good plans one without states that
  /// save nothing. price * (all bytes) must be finite.
  ForestPlan solve_at(double price);

  /// A plan of at most `budget_bytes` (>= 0) with the best bound that prices can prove. It
  /// splices the two plans that are optimal at the price of that bound, fills what is left over by
  /// saved seconds per byte and, where nodes times states are few, exchanges single states. With
  /// one chain and free KV it is optimal. Bytes left free count as saving `byte_worth` (>= 0) each.
  /// Fails when the pinned states do not fit.
  Result<ForestPlan> solve_within(double budget_bytes, Effort effort = Effort::exchange,
                                  double byte_worth = 0);

  /// Cost and bytes of holding exactly these states; bound and price stay 0.
  ForestPlan measure(std::span<const std::int32_t> states) const;

  /// solve_at, by rank of the layout.
  ForestHolds holds_at(double price);
  const ForestLayout& layout() const { return layout_; }
  /// What the last solve at a price did: O(n log n) melds of heaps, whatever the shape.
  std::int64_t operations() const { return pool_.operations(); }

 private:
  // What the best plan does depends on x = F(nearest chosen proper ancestor) only.
  struct Choice {
    double hold_below = 0;  // holds a state when x is less
    double drop_from = 0;   // nothing is kept in the subtree when x is at least this
  };

  explicit ForestSolver(ForestLayout layout) : layout_(std::move(layout)) {}
  void choose(double price);
  void settle(std::size_t rank, double price, Curve& curve);

  ForestLayout layout_;
  std::vector<Choice> choices_;
  std::vector<Curve> curves_;
  CurvePool pool_;
};

}  // namespace cairn::engine
