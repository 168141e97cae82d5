// SPDX-License-Identifier: Apache-2.0
// Replays a trace of (length, overlap, parent) against a policy on the plan tree alone: no tokens,
// no pools. What the simulator and the prefix cache must agree with, and quick enough to compare
// policies by.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/placement/planner.hpp"
#include "engine/placement/shape_cache.hpp"
#include "engine/simulate/trace.hpp"

namespace cairn::engine {

struct ReplayResult {
  std::int64_t reusable = 0, recomputed = 0;  // tokens
  std::int64_t states_written = 0, evicted = 0, refused = 0;
  std::uint64_t bytes = 0;  // at the end
  double share() const {
    return reusable == 0 ? 0
                         : 100.0 * static_cast<double>(recomputed) / static_cast<double>(reusable);
  }
};

/// A policy whose name asks for a planner gets one, fed with every request; its plans are adopted
/// at once. One thread; the policy outlives the replay.
class ShapeReplay {
 public:
  ShapeReplay(CachePolicy& policy, ByteCosts costs, std::uint64_t budget);
  /// Overlap and parent must be stated; without a parent nothing is shared.
  void request(const TraceRequest& row);
  const ReplayResult& result() const { return result_; }
  const PlanTree& tree() const { return cache_.tree(); }

 private:
  CachePolicy& policy_;
  ShapeCache cache_;
  PlannerOptions planner_options_;
  DpPlanner planner_;
  std::vector<PlanNode> ends_;  // by row
  ReplayResult result_;
};

/// The whole trace.
ReplayResult replay(const Trace& trace, CachePolicy& policy, ByteCosts costs, std::uint64_t budget);

}  // namespace cairn::engine
