// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

constexpr double kMostBytes = 9007199254740992.0;  // 2^53: sums of whole bytes stay exact
constexpr double kMostCost = 1e250;                // leaves room for prices and differences

Error bad(std::size_t node, const char* field, const std::string& expected) {
  const std::string param = "nodes[" + std::to_string(node) + "]." + field;
  return {ErrorCode::bad_request, "field '" + param + "': expected " + expected, param};
}

bool amount(double x) { return x >= 0 && std::isfinite(x); }

Status check_node(std::span<const DemandNode> nodes, std::size_t i) {
  const DemandNode& n = nodes[i];
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
std::vector<std::int32_t> top_down(std::span<const DemandNode> nodes) {
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

void rank_nodes(std::span<const DemandNode> nodes, ForestLayout& layout) {
  const std::size_t n = nodes.size();
  const std::vector<std::int32_t> order = top_down(nodes);
  std::vector<std::int32_t> size(n, 1);
  for (std::size_t i = n; i-- > 0;) {
    const auto v = static_cast<std::size_t>(order[i]);
    if (nodes[v].parent >= 0) size[static_cast<std::size_t>(nodes[v].parent)] += size[v];
  }
  layout.rank.resize(n);
  layout.vertices.resize(n);
  std::vector<std::int32_t> next(n);  // by node: rank of its next child
  std::int32_t next_root = 0;
  for (const std::int32_t i : order) {
    const auto v = static_cast<std::size_t>(i);
    const DemandNode& node = nodes[v];
    std::int32_t& slot = node.parent < 0 ? next_root : next[static_cast<std::size_t>(node.parent)];
    layout.rank[v] = slot;
    slot += size[v];
    next[v] = layout.rank[v] + 1;
    ForestLayout::Vertex& out = layout.vertices[static_cast<std::size_t>(layout.rank[v])];
    out.parent = node.parent < 0 ? -1 : layout.rank[static_cast<std::size_t>(node.parent)];
    out.size = size[v];
    out.node = i;
    out.can_hold = node.can_hold;
    out.pinned = node.pinned;
    out.depth = static_cast<double>(node.depth);
    out.reach = layout.cost(out.depth);
    out.parent_reach =
        out.parent < 0 ? 0 : layout.vertices[static_cast<std::size_t>(out.parent)].reach;
    out.demand = node.demand;
    out.state_bytes = node.state_bytes;
    out.edge_bytes = node.edge_bytes;
  }
}

void sum_up(ForestLayout& layout) {
  for (std::size_t r = layout.vertices.size(); r-- > 0;) {
    ForestLayout::Vertex& v = layout.vertices[r];
    v.mass += v.demand;
    v.from_nothing += v.demand * v.reach;
    v.from_parent += v.mass * (v.reach - v.parent_reach);
    v.pinned_below |= v.pinned;
    layout.total_bytes += v.edge_bytes + v.state_bytes;
    if (v.parent < 0) continue;
    ForestLayout::Vertex& above = layout.vertices[static_cast<std::size_t>(v.parent)];
    above.mass += v.mass;
    above.from_nothing += v.from_nothing;
    above.from_parent += v.from_parent;
    above.pinned_below |= v.pinned_below;
  }
}

}  // namespace

Result<ForestLayout> lay_out_forest(std::span<const DemandNode> nodes, CostModel cost) {
  check(nodes.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 4),
        "a forest's nodes are counted in 32 bits");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Status status = check_node(nodes, i);
    if (!status) return status.error();
  }
  ForestLayout layout;
  layout.cost = cost;
  rank_nodes(nodes, layout);
  sum_up(layout);
  double whole = 0;
  for (const ForestLayout::Vertex& v : layout.vertices) whole += v.demand * (1 + v.reach);
  if (!(whole <= kMostCost)) {
    return Error{ErrorCode::bad_request,
                 "field 'nodes': expected demands whose cost from the root sums to at most 1e250",
                 "nodes"};
  }
  if (!(layout.total_bytes <= kMostBytes)) {
    return Error{ErrorCode::bad_request,
                 "field 'nodes': expected states and KV of at most 2^53 bytes in all", "nodes"};
  }
  return layout;
}

ForestPlan plan_of(const ForestLayout& layout, const ForestHolds& holds) {
  ForestPlan plan;
  const std::size_t n = layout.vertices.size();
  std::vector<double> near(n);  // depth of the deepest chosen at or above
  for (std::size_t r = 0; r < n; ++r) {
    const ForestLayout::Vertex& v = layout.vertices[r];
    const double above = v.parent < 0 ? 0 : near[static_cast<std::size_t>(v.parent)];
    near[r] = holds[r] != 0 ? v.depth : above;
    if (v.demand > 0) plan.cost += v.demand * layout.cost.between(near[r], v.depth);
  }
  ForestHolds kept = holds;
  for (std::size_t r = n; r-- > 0;) {
    const ForestLayout::Vertex& v = layout.vertices[r];
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

std::vector<double> served_by(const ForestLayout& layout, const ForestHolds& holds) {
  std::vector<double> served(layout.size(), 0);
  for (std::size_t r = layout.size(); r-- > 0;) {
    served[r] += layout.vertices[r].demand;
    const std::int32_t parent = layout.vertices[r].parent;
    if (parent >= 0 && holds[r] == 0) served[static_cast<std::size_t>(parent)] += served[r];
  }
  return served;
}

EdgeNeeds::EdgeNeeds(const ForestLayout& layout, const ForestHolds& holds)
    : layout_(&layout), needs_(holds.begin(), holds.end()) {
  for (std::size_t r = needs_.size(); r-- > 0;) {
    const std::int32_t parent = layout.vertices[r].parent;
    if (parent >= 0 && needs_[r] > 0) ++needs_[static_cast<std::size_t>(parent)];
  }
}

double EdgeNeeds::change(std::size_t rank, std::int32_t by) {
  double bytes = 0;
  for (std::size_t r = rank;;) {
    const std::int32_t before = needs_[r];
    needs_[r] += by;
    if ((before == 0) == (needs_[r] == 0)) return bytes;
    const ForestLayout::Vertex& v = layout_->vertices[r];
    bytes += by * v.edge_bytes;
    if (v.parent < 0) return bytes;
    r = static_cast<std::size_t>(v.parent);
  }
}

}  // namespace cairn::engine
