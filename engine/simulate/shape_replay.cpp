// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/shape_replay.hpp"

namespace cairn::engine {

ShapeReplay::ShapeReplay(CachePolicy& policy, ByteCosts costs, std::uint64_t budget)
    : policy_(policy),
      cache_(policy, costs, budget),
      planner_options_(planner_options_for(policy.name(), 0)),
      planner_(planner_options_) {}

void ShapeReplay::request(const TraceRequest& row) {
  const bool shares = row.parent >= 0;
  const auto served =
      cache_.request(shares ? ends_[static_cast<std::size_t>(row.parent)] : kPlanRoot,
                     shares ? row.overlap : 0, row.length);
  ends_.push_back(served.end);
  result_.reusable += served.reusable;
  result_.recomputed += served.reusable - served.resume;
  result_.states_written += served.written;
  result_.evicted += served.evicted;
  result_.refused += served.refused;
  result_.bytes = tree().bytes();
  if (planner_options_.checkpoints == 0) return;
  planner_.observe(served.seen);
  if (planner_.due()) policy_.adopt(planner_.solve());
}

ReplayResult replay(const Trace& trace, CachePolicy& policy, ByteCosts costs,
                    std::uint64_t budget) {
  ShapeReplay run(policy, costs, budget);
  for (std::size_t i = 0; i < trace.size(); ++i) run.request(trace[i]);
  return run.result();
}

}  // namespace cairn::engine
