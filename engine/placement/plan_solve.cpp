// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_solve.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/json_text.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/forest_plan_json.hpp"
#include "engine/placement/plan_json.hpp"
#include "engine/placement/spacings.hpp"

namespace cairn::engine {
namespace {

using namespace plan_json;

constexpr std::int64_t kMaxBudget = 1'000'000;  // depth * budget fits 63 bits
constexpr std::size_t kMaxTable = 200'000'000;  // back-pointers: 800 MB

struct Problem {
  std::int64_t grain = 1;
  CostModel cost;
  std::vector<DemandPoint> demand;  // weights sum to 1
  std::int64_t deepest = 0;
  int budget = 0;
};

void read_demand(const json::Value& v, Problem& problem) {
  constexpr const char* kShape = "an array of [depth, weight] pairs";
  if (!v.is(json::Kind::array)) throw Bad{"demand", std::string(kShape) + ", got " + shown(v)};
  double total = 0;
  problem.demand.reserve(v.items().size());
  for (std::size_t i = 0; i < v.items().size(); ++i) {
    const json::Value& pair = v.items()[i];
    const std::string field = "demand[" + std::to_string(i) + "]";
    if (pair.items().size() != 2) throw Bad{field, "a pair [depth, weight], got " + shown(pair)};
    const std::int64_t depth = integer(pair.items()[0], field + "[0] (depth)", 1, kMaxDepth);
    const double weight = finite(pair.items()[1], field + "[1] (weight)", HUGE_VAL);
    total += weight;
    problem.deepest = std::max(problem.deepest, depth);
    problem.demand.push_back({depth, weight});
  }
  if (!(total > 0)) throw Bad{"demand", "weights whose sum is above 0"};
  if (!std::isfinite(total)) throw Bad{"demand", "weights whose sum is finite"};
  for (DemandPoint& p : problem.demand) p.weight /= total;
}

Problem read_problem(const json::Value& v) {
  if (!v.is(json::Kind::object)) throw Bad{"", "an object, got " + shown(v)};
  only_known(v, "", {"grain", "cost", "demand", "budget"});
  Problem problem;
  if (const auto* grain = v.find("grain")) problem.grain = integer(*grain, "grain", 1, kMaxDepth);
  if (const auto* cost = v.find("cost")) problem.cost = read_cost(*cost);
  read_demand(required(v, "demand", "an array of [depth, weight] pairs"), problem);
  problem.budget = static_cast<int>(
      integer(required(v, "budget", "a number of checkpoints"), "budget", 0, kMaxBudget));
  const std::size_t depths = problem.demand.size();
  const auto budget = static_cast<std::size_t>(problem.budget);
  if (budget < depths && budget * depths > kMaxTable) {
    throw Bad{"budget", "budget times demand points of at most " + std::to_string(kMaxTable)};
  }
  return problem;
}

// {"positions":[..],"expected_recompute":x, and the object stays open.
void write_plan(JsonWriter& json, std::span<const std::int64_t> positions, double cost) {
  json.begin_object().key("positions").begin_array();
  for (const std::int64_t position : positions) json.integer(position);
  json.end_array().key("expected_recompute").number(cost);
}

std::string solve(const Problem& problem) {
  const DpResult best =
      place_checkpoints(problem.demand, problem.budget, problem.cost, problem.grain);
  JsonWriter json;
  write_plan(json, best.positions, best.cost);
  json.key("baselines").begin_object();
  for (const Spacing spacing : kSpacings) {
    const auto positions =
        spaced_positions(spacing, problem.deepest, problem.budget, problem.grain);
    json.key(to_string(spacing));
    write_plan(json, positions, placement_cost(problem.demand, positions, problem.cost));
    json.end_object();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace

Result<std::string> solve_plan_json(std::string_view text) {
  const auto document = json::parse(text);
  if (!document) {
    return Error{ErrorCode::bad_request, "not a JSON document: " + document.error().message, ""};
  }
  if (document->find("nodes")) return solve_forest_json(*document);
  try {
    return solve(read_problem(*document));
  } catch (const Bad& bad) {
    return to_error(bad);
  }
}

}  // namespace cairn::engine
