// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/planner.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/policy_names.hpp"

namespace cairn::engine {
namespace {

constexpr std::int64_t kThousand = 1000;

struct Seen {
  std::int32_t depth = 0;  // tokens
  std::int32_t length = 0;
  std::int64_t scaled = 0;  // depth on the planner's scale
};

std::int64_t scaled(DepthScale scale, std::int64_t depth, std::int64_t parent_length) {
  if (scale == DepthScale::tokens) return depth;
  const std::int64_t whole = std::max(parent_length, depth);
  return (2 * kThousand * depth + whole) / (2 * whole);  // rounded
}

}  // namespace

std::vector<std::int32_t> positions_for(const Plan& plan, std::int32_t length) {
  std::vector<std::int32_t> out;
  for (const std::int32_t depth : plan.depths) {
    const std::int64_t at =
        plan.scale == DepthScale::tokens ? depth : std::int64_t{depth} * length / kThousand;
    if (at > 0 && at <= length && (out.empty() || at > out.back())) {
      out.push_back(static_cast<std::int32_t>(at));
    }
  }
  return out;
}

struct DpPlanner::Impl {
  PlannerOptions options;
  std::deque<Seen> seen;  // with an overlap, newest last
  std::uint64_t observations = 0;
  std::uint64_t solved_at = 0;  // observations at the last solve
  std::uint64_t epoch = 0;

  template <class Visit>
  void each_decayed(const Visit& visit) const {
    double weight = 1;
    for (auto it = seen.rbegin(); it != seen.rend(); ++it) {
      visit(*it, weight);
      weight *= options.decay;
    }
  }

  std::vector<std::int32_t> best_depths() const {
    std::vector<DemandPoint> demand;
    demand.reserve(seen.size());
    each_decayed([&](const Seen& s, double weight) {
      if (s.scaled > 0) demand.push_back({s.scaled, weight});
    });
    const DpResult placed = place_checkpoints(demand, options.checkpoints);
    std::vector<std::int32_t> depths;
    for (const std::int64_t p : placed.positions) depths.push_back(static_cast<std::int32_t>(p));
    return depths;
  }

  // Each remembered overlap under the positions its prompt would get.
  double expected_recompute(const Plan& plan) const {
    double total = 0;
    double mass = 0;
    each_decayed([&](const Seen& s, double weight) {
      const std::vector<std::int32_t> at = positions_for(plan, s.length);
      const auto above = std::upper_bound(at.begin(), at.end(), s.depth);
      total += weight * (s.depth - (above == at.begin() ? 0 : *std::prev(above)));
      mass += weight;
    });
    return mass > 0 ? total / mass : 0;
  }
};

DpPlanner::DpPlanner(PlannerOptions options) : impl_(std::make_shared<Impl>()) {
  impl_->options = options;
}

void DpPlanner::observe(const Observation& observation) {
  Impl& d = *impl_;
  ++d.observations;
  if (observation.overlap <= 0) return;
  const std::int32_t length = std::min(observation.length, d.options.max_length);
  const std::int32_t depth = std::min(observation.overlap, length);
  d.seen.push_back({depth, length, scaled(d.options.scale, depth, observation.parent_length)});
  if (d.seen.size() > d.options.remembered) d.seen.pop_front();
}

bool DpPlanner::due() const {
  return impl_->observations - impl_->solved_at >=
         static_cast<std::uint64_t>(std::max(impl_->options.replan_every, 1));
}

std::shared_ptr<const Plan> DpPlanner::solve() {
  check(!hit_failpoint("planner.solve"), "the planner was told to fail");
  Impl& d = *impl_;
  const auto start = std::chrono::steady_clock::now();
  auto plan = std::make_shared<Plan>();
  plan->epoch = ++d.epoch;
  plan->scale = d.options.scale;
  plan->observations = d.observations;
  plan->depths = d.best_depths();
  plan->expected_recompute_tokens = d.expected_recompute(*plan);
  plan->solve_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  d.solved_at = d.observations;
  return plan;
}

std::uint64_t DpPlanner::observations() const { return impl_->observations; }

PlannerOptions planner_options_for(std::string_view policy_spelling, std::int32_t context_length) {
  PlannerOptions options;
  options.checkpoints = 0;
  const auto parsed = parse_policy_name(policy_spelling);
  if (parsed.ok() && (parsed->rule == "dp" || parsed->rule == "dp_frac")) {
    options.checkpoints = static_cast<int>(parsed->count);
    if (parsed->rule == "dp_frac") options.scale = DepthScale::parent_share;
  }
  if (context_length > 0) options.max_length = context_length;
  return options;
}

}  // namespace cairn::engine
