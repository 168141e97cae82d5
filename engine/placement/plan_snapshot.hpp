// SPDX-License-Identifier: Apache-2.0
// The forest and its plan at one moment, as a file that people and tools can look at.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

struct PlanSnapshot {
  struct Node {
    std::int32_t parent = -1;  // index of an earlier node; -1: the empty prefix, of depth 0
    std::int32_t depth = 0;    // tokens from the root, more than the parent's
    Claim claim = Claim::none;
    StateKind kind = StateKind::planned;  // of a claim
    double rate = 0;                      // requests a tick whose overlap is predicted to end here
    double loss_per_byte = 0;             // of a claim: predicted cost a tick and byte of losing it
    std::uint64_t bytes = 0;              // of a claim: its state and the KV that only it needs
  };
  std::string policy;
  std::uint64_t bytes = 0;   // held
  std::uint64_t budget = 0;  // 0: none but memory
  double price = 0;          // what a byte must earn, in the unit of loss_per_byte
  std::vector<Node> nodes;   // parents before children
};

/// The tree as it is, with what a policy predicts of each node. O(size + claims * their edges).
PlanSnapshot snapshot_of(const PlanTree& tree, const std::function<double(PlanNode)>& rate,
                         const std::function<double(PlanNode)>& loss_per_byte);

/// {"policy": "forest", "bytes": n, "budget": n, "price": x, "nodes": [{"parent": -1, "depth": n,
/// "claim": "none" | "pending" | "stored", "kind": "branch", "rate": x, "loss_per_byte": x,
/// "bytes": n}, ...]}
std::string to_json(const PlanSnapshot& snapshot);

/// What to_json wrote; "kind", "rate", "loss_per_byte" and "bytes" of a node may be missing,
/// unknown fields are ignored. The error names the field and what was expected.
Result<PlanSnapshot> parse_plan_snapshot(std::string_view json);

}  // namespace cairn::engine
