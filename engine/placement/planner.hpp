// SPDX-License-Identifier: Apache-2.0
// The published method's planner without its actor: a decayed histogram of where overlaps end, and
// the programme of placement.md section 2 solved over it for all prompts at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/placement/demand_forest.hpp"

namespace cairn::engine {

/// What the depths of the histogram are measured in.
enum class DepthScale : std::uint8_t {
  tokens,        // from the start: fixed system and few-shot prompts
  parent_share,  // thousandths of the length of the prompt that was shared: documents, questions
};

/// How good what is kept is under the predicted demand, per tick and in the unit of F.
struct PlanCertificate {
  std::int64_t claims = 0;
  std::uint64_t bytes = 0;
  double cost = 0;   // predicted recompute of what is kept
  double best = 0;   // of the best plan found that keeps only what exists
  double bound = 0;  // no choice among what exists costs less
  double ideal = 0;  // no choice among all places ever seen costs less
  double regret() const { return cost - best; }
  double gap() const { return cost - bound; }
  double gap_ratio() const { return cost > 0 ? gap() / cost : 0; }
};

/// Immutable once published.
struct Plan {
  std::uint64_t epoch = 0;
  DepthScale scale = DepthScale::tokens;
  std::vector<std::int32_t> depths;      // ascending, at most M; tokens or thousandths of a length
  double expected_recompute_tokens = 0;  // mean over the remembered overlaps under this plan
  std::uint64_t observations = 0;
  double solve_seconds = 0;

  // The default rule's.
  std::shared_ptr<const DemandRates> rates;
  std::optional<PlanCertificate> certificate;
};

/// Where the plan wants states in a prompt of `length` tokens: ascending, in (0, length].
std::vector<std::int32_t> positions_for(const Plan& plan, std::int32_t length);

struct PlannerOptions {
  int checkpoints = 4;  // M
  DepthScale scale = DepthScale::tokens;
  double decay = 0.99;           // gamma per remembered overlap
  int replan_every = 10;         // observations
  std::size_t remembered = 300;  // overlaps; 0.99^300 = 0.05 is left of an older one
  std::int32_t max_length = 262'144;
};

/// The demand is the last overlaps, whole earlier prompts included, decayed, without a prior:
/// before the first overlap a plan has no positions. Owned by one thread (the planner actor, the
/// simulator).
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
