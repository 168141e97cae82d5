// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace cairn::engine::plan_json {
namespace {

constexpr double kMaxCost = 1e100;  // F(kMaxDepth) stays finite

}  // namespace

Error to_error(const Bad& bad) {
  const std::string field = bad.field.empty() ? "the document" : "field '" + bad.field + "'";
  return {ErrorCode::bad_request, field + ": expected " + bad.expected, bad.field};
}

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
  std::string expected = "a finite number of at least 0";
  if (std::isfinite(high)) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), high).ptr;
    expected.append(" and at most ").append(text.data(), end);
  }
  throw Bad{field, expected + ", got " + shown(v)};
}

bool boolean(const json::Value& v, const std::string& field) {
  if (v.is(json::Kind::boolean)) return v.as_bool();
  throw Bad{field, "true or false, got " + shown(v)};
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

}  // namespace cairn::engine::plan_json
