// SPDX-License-Identifier: Apache-2.0
// Replays a trace of (length, overlap, parent) against a policy on the plan tree alone: no tokens,
// no pools. What the simulator and the prefix cache must agree with, and quick enough to compare
// policies by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/placement/cache_policy.hpp"

namespace cairn::testing {

struct TraceRow {
  std::int32_t length = 0;
  std::int32_t overlap = 0;
  std::int32_t parent = -1;  // an earlier row, -1 for none
};

/// Columns prompt_tokens, overlap_tokens and parent of a CSV file, plain or gzip. Throws
/// std::runtime_error.
std::vector<TraceRow> read_trace_csv(const std::string& path);

struct ReplayResult {
  std::int64_t reusable = 0, recomputed = 0;  // tokens
  std::int64_t states_written = 0, evicted = 0, refused = 0;
  std::uint64_t bytes = 0;  // at the end
  double share() const {
    return reusable == 0 ? 0
                         : 100.0 * static_cast<double>(recomputed) / static_cast<double>(reusable);
  }
};

class ShapeReplay {
 public:
  ShapeReplay(engine::CachePolicy& policy, engine::ByteCosts costs, std::uint64_t budget);
  void request(const TraceRow& row);
  const ReplayResult& result() const { return result_; }
  const engine::PlanTree& tree() const { return tree_; }

 private:
  engine::PlanNode node_at(engine::PlanNode below, std::int32_t depth);
  void drop(engine::PlanNode node);
  void merge_if_idle(engine::PlanNode node);

  engine::CachePolicy& policy_;
  engine::PlanTree tree_;
  std::uint64_t budget_;
  std::vector<engine::PlanNode> ends_;  // by row
  std::vector<bool> is_end_;            // by node
  std::uint64_t tick_ = 0;
  ReplayResult result_;
};

/// The whole trace under one policy.
ReplayResult replay(const std::vector<TraceRow>& rows, engine::CachePolicy& policy,
                    std::uint64_t budget,
                    engine::ByteCosts costs = {.state_bytes = 19'500'000,
                                               .kv_bytes_per_token = 12'288});

}  // namespace cairn::testing
