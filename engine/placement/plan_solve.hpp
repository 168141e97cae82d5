// SPDX-License-Identifier: Apache-2.0
// The placement programme over a file: what `cairn plan solve` reads and prints.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cairn::engine {

/// Reads {"demand": [[depth, weight], ...], "budget": M} with optional "grain" (1) and "cost" {"a":
/// 1, "b": 0}. Answers {"positions": [...], "expected_recompute": x, "baselines": {"balanced":
/// {...}, ...}}, normalised by the total weight; the baselines space the largest depth. A
/// document with "nodes" is a forest: see forest_plan_json.hpp. The error names the field (also in
/// `param`) and what was expected of it. Thread-safe.
Result<std::string> solve_plan_json(std::string_view json);

}  // namespace cairn::engine
