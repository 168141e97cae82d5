// SPDX-License-Identifier: Apache-2.0
// The claims of a tree and the forks between them as the solver takes them: what to keep when only
// what exists can be kept.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/placement/demand_forest.hpp"
#include "engine/placement/forest_solver.hpp"

namespace cairn::engine {

/// Compresses and solves as often as asked; keeps its buffers. Owned by one thread.
class ClaimForest {
 public:
  /// The claims that the best plan within `budget` bytes leaves out, least demand first among
  /// equals, when a byte left free saves `byte_worth`; those that are not usable stay. Empty when
  /// these alone do not fit. O(claims * their depth in nodes + solve).
  std::vector<PlanNode> left_out(const PlanTree& tree, const DemandForest& demand, CostModel cost,
                                 double budget, double byte_worth,
                                 const std::function<bool(PlanNode)>& usable);

 private:
  void compress(const PlanTree& tree, const DemandForest& demand,
                const std::function<bool(PlanNode)>& usable);
  void mark(const PlanTree& tree, PlanNode claim);

  std::vector<std::uint32_t> stamp_;    // by slot: of the call that touched it
  std::vector<std::int32_t> children_;  // by slot: touched ones
  std::vector<std::int32_t> index_;     // by slot: into nodes_
  std::uint32_t call_ = 0;
  std::vector<PlanNode> claimed_;
  std::vector<PlanNode> touched_;
  std::vector<PlanNode> of_;
  std::vector<DemandNode> nodes_;
};

}  // namespace cairn::engine
