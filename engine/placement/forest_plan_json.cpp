// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_plan_json.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/json_text.hpp"
#include "engine/placement/forest_solver.hpp"
#include "engine/placement/plan_json.hpp"

namespace cairn::engine {
namespace {

using namespace plan_json;

constexpr double kMaxBytes = 9007199254740992.0;  // 2^53
constexpr double kMaxPriced = 1e250;              // all bytes at the price

struct Problem {
  std::vector<DemandNode> nodes;
  CostModel cost;
  std::optional<double> price;
  std::optional<double> budget_bytes;
};

DemandNode read_node(const json::Value& v, const std::string& field, std::int64_t nodes) {
  if (!v.is(json::Kind::object)) {
    throw Bad{field, "an object {\"parent\": .., \"depth\": .., \"demand\": ..}, got " + shown(v)};
  }
  only_known(v, field + ".", {"parent", "depth", "demand", "can_hold", "pinned"});
  const auto member = [&](const char* name, const char* what) -> const json::Value& {
    if (const json::Value* found = v.find(name)) return *found;
    throw Bad{field + "." + name, std::string(what) + ", but it is missing"};
  };
  DemandNode n;
  n.parent = static_cast<std::int32_t>(
      integer(member("parent", "-1 or the index of a node"), field + ".parent", -1, nodes - 1));
  n.depth = integer(member("depth", "a number of tokens"), field + ".depth", 1, kMaxDepth);
  n.demand = finite(member("demand", "a rate"), field + ".demand", HUGE_VAL);
  if (const auto* can = v.find("can_hold")) n.can_hold = boolean(*can, field + ".can_hold");
  if (const auto* pinned = v.find("pinned")) n.pinned = boolean(*pinned, field + ".pinned");
  return n;
}

std::vector<DemandNode> read_nodes(const json::Value& v) {
  if (!v.is(json::Kind::array)) throw Bad{"nodes", "an array of nodes, got " + shown(v)};
  const auto count = static_cast<std::int64_t>(v.items().size());
  std::vector<DemandNode> nodes;
  nodes.reserve(v.items().size());
  for (std::size_t i = 0; i < v.items().size(); ++i) {
    nodes.push_back(read_node(v.items()[i], "nodes[" + std::to_string(i) + "]", count));
  }
  return nodes;
}

Problem read_problem(const json::Value& v) {
  only_known(v, "",
             {"nodes", "state_bytes", "kv_bytes_per_token", "cost", "price", "budget_bytes"});
  Problem problem;
  problem.nodes = read_nodes(*v.find("nodes"));
  const double state_bytes =
      finite(required(v, "state_bytes", "the bytes of a state"), "state_bytes", kMaxBytes);
  const double kv = finite(required(v, "kv_bytes_per_token", "the bytes of a token's KV"),
                           "kv_bytes_per_token", kMaxBytes);
  for (DemandNode& n : problem.nodes) {
    const auto above = n.parent < 0 ? 0 : problem.nodes[static_cast<std::size_t>(n.parent)].depth;
    n.state_bytes = state_bytes;
    // A depth that does not grow is the solver's to refuse.
    if (n.depth > above) n.edge_bytes = kv * static_cast<double>(n.depth - above);
  }
  if (const auto* cost = v.find("cost")) problem.cost = read_cost(*cost);
  const auto* price = v.find("price");
  const auto* budget = v.find("budget_bytes");
  if ((price == nullptr) == (budget == nullptr)) {
    throw Bad{price ? "price" : "budget_bytes", "exactly one of price and budget_bytes"};
  }
  if (price) problem.price = finite(*price, "price", HUGE_VAL);
  if (budget) problem.budget_bytes = finite(*budget, "budget_bytes", HUGE_VAL);
  return problem;
}

Result<ForestPlan> solve(const Problem& problem) {
  auto solver = ForestSolver::make(problem.nodes, problem.cost);
  if (!solver) return solver.error();
  if (problem.budget_bytes) return solver->solve_within(*problem.budget_bytes);
  if (!(*problem.price * solver->layout().total_bytes <= kMaxPriced)) {
    throw Bad{"price", "a price that makes all states and KV together cost at most 1e250"};
  }
  return solver->solve_at(*problem.price);
}

void write_nodes(JsonWriter& json, const char* key, std::span<const std::int32_t> nodes) {
  json.key(key).begin_array();
  for (const std::int32_t node : nodes) json.integer(node);
  json.end_array();
}

std::string to_json(const ForestPlan& plan) {
  JsonWriter json;
  json.begin_object();
  write_nodes(json, "states", plan.states);
  write_nodes(json, "kept_edges", plan.kept_edges);
  json.key("bytes");
  if (plan.bytes == std::floor(plan.bytes)) {
    json.integer(static_cast<std::int64_t>(plan.bytes));
  } else {
    json.number(plan.bytes);
  }
  json.key("cost").number(plan.cost);
  json.key("bound").number(plan.bound);
  json.key("gap").number(plan.gap());
  json.key("gap_ratio").number(plan.gap_ratio());
  json.key("price").number(plan.price);
  json.end_object();
  return json.take();
}

}  // namespace

Result<std::string> solve_forest_json(const json::Value& document) {
  try {
    const auto plan = solve(read_problem(document));
    if (!plan) return plan.error();
    return to_json(*plan);
  } catch (const Bad& bad) {
    return to_error(bad);
  }
}

}  // namespace cairn::engine
