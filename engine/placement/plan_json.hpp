// SPDX-License-Identifier: Apache-2.0
// What the readers of plan files share: fields with limits, errors that name them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "base/result.hpp"
#include "engine/placement/dp.hpp"

namespace cairn::engine::plan_json {

inline constexpr std::int64_t kMaxDepth = 1'000'000'000'000;  // F(kMaxDepth) stays finite

/// Thrown by the readers and caught by the function that answers for the whole file.
struct Bad {
  std::string field;  // empty: the document
  std::string expected;
};
Error to_error(const Bad& bad);

/// A value as an error shows it.
std::string shown(const json::Value& v);

std::int64_t integer(const json::Value& v, const std::string& field, std::int64_t low,
                     std::int64_t high);
/// From 0 to `high`.
double finite(const json::Value& v, const std::string& field, double high);
bool boolean(const json::Value& v, const std::string& field);
void only_known(const json::Value& object, const std::string& prefix,
                std::initializer_list<std::string_view> known);
const json::Value& required(const json::Value& object, const std::string& field, const char* what);
/// {"a": .., "b": ..}, both optional.
CostModel read_cost(const json::Value& v);

}  // namespace cairn::engine::plan_json
