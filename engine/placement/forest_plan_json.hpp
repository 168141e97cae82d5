// SPDX-License-Identifier: Apache-2.0
// A forest and its plan as JSON: the second form that `cairn plan solve` reads.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/result.hpp"

namespace cairn::engine {

/// Reads {"nodes": [{"parent": -1, "depth": 120, "demand": 1.5, "can_hold": true, "pinned":
/// false}, ...], "state_bytes": S, "kv_bytes_per_token": k, "cost": {"a": 1, "b": 0}} with either
/// "price": p or "budget_bytes": B. Optional: can_hold (true), pinned (false), cost. `parent` is an
/// index into nodes in any order, -1 the empty prefix; `depth` counts tokens from the root.
///
/// Answers {"states": [node, ...], "kept_edges": [node, ...], "bytes": n, "cost": c, "bound": l,
/// "gap": g, "gap_ratio": r, "price": p}. A kept edge is named by the node at its lower end; cost
/// is without the price of the bytes. Under a budget no plan within it costs less than `bound`, and
/// `price` is the price that proves it. Under a price the plan is the best for its own bytes, so
/// that bound = cost and gap = 0. The error names the field (also in `param`). Thread-safe.
Result<std::string> solve_forest_json(const json::Value& document);

}  // namespace cairn::engine
