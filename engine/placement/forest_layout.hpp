// SPDX-License-Identifier: Apache-2.0
// A forest as its solver walks it: checked, by rank in preorder, with the sums of every subtree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/dp.hpp"

namespace cairn::engine {

struct DemandNode {
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

using ForestHolds = std::vector<std::uint8_t>;  // by rank: 1 where a state is held

/// Immutable. A subtree is the ranks [v, v + size); parents come before children.
struct ForestLayout {
  struct Vertex {
    std::int32_t parent = -1;
    std::int32_t size = 1;
    std::int32_t node = 0;
    bool can_hold = true;
    bool pinned = false;
    bool pinned_below = false;  // or here
    double depth = 0;
    double reach = 0;         // F(depth)
    double parent_reach = 0;  // 0 below the empty prefix
    double demand = 0;
    double state_bytes = 0;
    double edge_bytes = 0;
    double mass = 0;         // demand of the subtree
    double from_parent = 0;  // cost of the subtree's demand when the parent holds the nearest state
    double from_nothing = 0;  // the same when nothing above does
  };

  CostModel cost;
  std::vector<Vertex> vertices;
  std::vector<std::int32_t> rank;  // by node
  double total_bytes = 0;          // every state and every edge

  std::size_t size() const { return vertices.size(); }
};

/// The error's `param` names the field as nodes[3].depth. A cycle shows as a depth that does not
/// grow. Costs over all nodes must sum to a finite value, bytes to what a double counts exactly.
Result<ForestLayout> lay_out_forest(std::span<const DemandNode> nodes, CostModel cost);

/// States, edges, bytes and cost; price and bound stay 0. O(n).
ForestPlan plan_of(const ForestLayout& layout, const ForestHolds& holds);

/// By rank: the demand of the subtree that no state strictly below serves, which is what a state
/// here serves or would serve. O(n).
std::vector<double> served_by(const ForestLayout& layout, const ForestHolds& holds);

/// How many keep a node's edge: its own state, and every child whose edge is kept. Borrows the
/// layout.
class EdgeNeeds {
 public:
  EdgeNeeds(const ForestLayout& layout, const ForestHolds& holds);
  std::int32_t operator[](std::size_t rank) const { return needs_[rank]; }
  /// A state comes to (1) or leaves (-1) the node; returns the change of KV bytes.
  double change(std::size_t rank, std::int32_t by);

 private:
  const ForestLayout* layout_;
  std::vector<std::int32_t> needs_;
};

}  // namespace cairn::engine
