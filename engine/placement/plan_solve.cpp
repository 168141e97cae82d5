// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_solve.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/spacings.hpp"

namespace cairn::engine {
namespace {

constexpr std::int64_t kMaxDepth = 1'000'000'000'000;  // depth * budget fits 63 bits
constexpr std::int64_t kMaxBudget = 1'000'000;
constexpr double kMaxCost = 1e100;              // F(kMaxDepth) stays finite
constexpr std::size_t kMaxTable = 200'000'000;  // back-pointers: 800 MB

struct Problem {
  std::int64_t grain = 1;
  CostModel cost;
  std::vector<DemandPoint> demand;  // weights sum to 1
  std::int64_t deepest = 0;
  int budget = 0;
};

// Thrown inside this file only; solve_plan_json turns it into an Error.
struct Bad {
  std::string field;
  std::string expected;
};

std::string shown(const json::Value& v) {
  switch (v.kind()) {
    case json::Kind::null:
      return "null";
    case json::Kind::boolean:
      return v.as_bool() ? "true" : "false";
    case json::Kind::number:
      return v.text().size() > 40 ? v.text().substr(0, 40) + "..." : v.text();
    case json::Kind::string:
      return "a string";
    case json::Kind::array:
      return "an array of " + std::to_string(v.items().size());
    case json::Kind::object:
      return "an object";
  }
  return "null";
}

std::int64_t integer(const json::Value& v, const std::string& field, std::int64_t low,
                     std::int64_t high) {
  if (v.is_integer() && v.as_int() >= low && v.as_int() <= high) return v.as_int();
  throw Bad{field, "an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                       ", got " + shown(v)};
}

double finite(const json::Value& v, const std::string& field, double high) {
  const double x = v.as_double();
  if (v.is(json::Kind::number) && x >= 0 && x <= high && std::isfinite(x)) return x;
  throw Bad{field, "a finite number of at least 0, got " + shown(v)};
}

void only_known(const json::Value& object, const std::string& prefix,
                std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (const auto k : known) list += (list.empty() ? "" : ", ") + std::string(k);
    throw Bad{prefix + key, "only the keys " + list};
  }
}

const json::Value& required(const json::Value& object, const std::string& field, const char* what) {
  const json::Value* v = object.find(field);
  if (!v) throw Bad{field, std::string(what) + ", but it is missing"};
  return *v;
}

CostModel read_cost(const json::Value& v) {
  if (!v.is(json::Kind::object))
    throw Bad{"cost", "an object {\"a\": .., \"b\": ..}, got " + shown(v)};
  only_known(v, "cost.", {"a", "b"});
  CostModel cost;
  if (const auto* a = v.find("a")) cost.a = finite(*a, "cost.a", kMaxCost);
  if (const auto* b = v.find("b")) cost.b = finite(*b, "cost.b", kMaxCost);
  if (!(cost.a + cost.b > 0)) throw Bad{"cost", "a or b above 0"};
  return cost;
}

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

void append_number(std::string& out, double x) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  out.append(text.data(), end);
}

// "positions":[..],"expected_recompute":x
void append_plan(std::string& out, std::span<const std::int64_t> positions, double cost) {
  out += "\"positions\":[";
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(positions[i]);
  }
  out += "],\"expected_recompute\":";
  append_number(out, cost);
}

std::string solve(const Problem& problem) {
  const DpResult best =
      place_checkpoints(problem.demand, problem.budget, problem.cost, problem.grain);
  std::string out = "{";
  append_plan(out, best.positions, best.cost);
  out += ",\"baselines\":{";
  for (const Spacing spacing : kSpacings) {
    const auto positions =
        spaced_positions(spacing, problem.deepest, problem.budget, problem.grain);
    if (spacing != kSpacings.front()) out += ',';
    out += '"' + std::string(to_string(spacing)) + "\":{";
    append_plan(out, positions, placement_cost(problem.demand, positions, problem.cost));
    out += '}';
  }
  return out + "}}";
}

}  // namespace

Result<std::string> solve_plan_json(std::string_view text) {
  const auto document = json::parse(text);
  if (!document) {
    return Error{ErrorCode::bad_request, "not a JSON document: " + document.error().message, ""};
  }
  try {
    return solve(read_problem(*document));
  } catch (const Bad& bad) {
    const std::string field = bad.field.empty() ? "the document" : "field '" + bad.field + "'";
    return Error{ErrorCode::bad_request, field + ": expected " + bad.expected, bad.field};
  }
}

}  // namespace cairn::engine
