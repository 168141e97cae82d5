// SPDX-License-Identifier: Apache-2.0
// The planner's logic without its actor: a decayed histogram of where overlaps end, and the
// programme of placement.md section 2 solved over it for a ladder of prompt lengths.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/placement/policy.hpp"

namespace cairn::engine {

/// One request's overlap, as the prefix cache saw it.
struct Observation {
  std::int32_t length = 0;
  std::int32_t overlap = 0;
  std::int32_t resume = 0;
};

/// Immutable once published.
struct Plan {
  std::uint64_t epoch = 0;
  struct Rung {
    std::int32_t length = 0;  // for prompts of at least this many tokens, below the next rung's
    std::vector<std::int32_t> positions;        // M of them
    std::vector<std::int32_t> spare_positions;  // 2M, used while nothing has had to be evicted
  };
  std::vector<Rung> rungs;               // ascending lengths, ratio about 2^(1/8)
  std::int32_t reach = 0;                // prompts this long or longer are beyond the last rung
  double expected_recompute_tokens = 0;  // of the pooled demand under this plan
  std::uint64_t observations = 0;
  double solve_seconds = 0;
};

struct PlannerOptions {
  int checkpoints = 4;       // M
  double prior_samples = 8;  // weight of the uniform prior
  double decay = 0.99;       // gamma per observation
  int replan_every = 10;     // observations
  std::int32_t max_length = 262'144;
};

/// The rung for a prompt of `length` tokens; null where the plan has none (the prior's placement
/// holds there).
const Plan::Rung* rung_for(const Plan& plan, std::int32_t length);

/// The prior's placement, balanced: before there is a plan and for lengths it does not reach.
std::vector<std::int32_t> prior_positions(std::int32_t length, int checkpoints);

/// Demand of a rung = the last observations with an overlap no deeper than the rung's length,
/// decayed, plus a uniform prior. Owned by one thread (the planner actor, the simulator).
class DpPlanner {
 public:
  explicit DpPlanner(PlannerOptions options);
  void observe(const Observation& observation);
  bool due() const;  // a re-plan is worth it
  /// Never null. The failpoint "planner.solve" can hold it; as "fail" it throws InvariantError.
  std::shared_ptr<const Plan> solve();
  std::uint64_t observations() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// The planner options a policy's spelling implies; `checkpoints` == 0 when it needs no planner.
PlannerOptions planner_options_for(std::string_view policy_spelling, std::int32_t context_length);

}  // namespace cairn::engine
