// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/planner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <iterator>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/spacings.hpp"

namespace cairn::engine {
namespace {

constexpr std::int32_t kFirstRung = 16;
constexpr double kRungRatio = 1.0905077326652577;  // 2^(1/8)
constexpr std::size_t kRemembered = 512;  // observations; 0.99^512 = 0.006 is left of an older one
constexpr std::int32_t kPriorAtoms = 128;

std::int32_t rung_length(int step) {
  return static_cast<std::int32_t>(std::lround(kFirstRung * std::pow(kRungRatio, step)));
}

struct Seen {
  std::int32_t depth = 0;
  std::int32_t length = 0;
};

bool by_depth(const DemandPoint& x, const DemandPoint& y) { return x.depth < y.depth; }

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& positions) {
  std::vector<std::int32_t> out;
  out.reserve(positions.size());
  for (const std::int64_t p : positions) out.push_back(static_cast<std::int32_t>(p));
  return out;
}

// Histogram points no deeper than the rung, and `samples` spread evenly over (0, length].
void rung_demand(const std::vector<DemandPoint>& histogram, std::int32_t length, double samples,
                 std::vector<DemandPoint>& out) {
  std::vector<DemandPoint> prior;
  const std::int32_t atoms = std::min(length, kPriorAtoms);
  prior.reserve(static_cast<std::size_t>(atoms));
  for (std::int64_t i = 1; i <= atoms; ++i) prior.push_back({i * length / atoms, samples / atoms});
  const auto end =
      std::upper_bound(histogram.begin(), histogram.end(), DemandPoint{length, 0}, by_depth);
  out.clear();
  std::merge(histogram.begin(), end, prior.begin(), prior.end(), std::back_inserter(out), by_depth);
}

}  // namespace

const Plan::Rung* rung_for(const Plan& plan, std::int32_t length) {
  if (length >= plan.reach) return nullptr;
  const auto above =
      std::upper_bound(plan.rungs.begin(), plan.rungs.end(), length,
                       [](std::int32_t n, const Plan::Rung& rung) { return n < rung.length; });
  return above == plan.rungs.begin() ? nullptr : &*std::prev(above);
}

std::vector<std::int32_t> prior_positions(std::int32_t length, int checkpoints) {
  return narrowed(spaced_positions(Spacing::balanced, length, checkpoints));
}

struct DpPlanner::Impl {
  PlannerOptions options;
  std::deque<Seen> seen;     // with an overlap, newest last
  std::int32_t longest = 0;  // prompt
  std::uint64_t observations = 0;
  std::uint64_t solved_at = 0;  // observations at the last solve
  std::uint64_t epoch = 0;

  // Distinct depths ascending, weights decayed by age.
  std::vector<DemandPoint> histogram() const {
    std::vector<DemandPoint> points;
    points.reserve(seen.size());
    double weight = 1;
    for (auto it = seen.rbegin(); it != seen.rend(); ++it) {
      points.push_back({it->depth, weight});
      weight *= options.decay;
    }
    std::sort(points.begin(), points.end(), by_depth);
    std::vector<DemandPoint> distinct;
    for (const DemandPoint& p : points) {
      if (!distinct.empty() && distinct.back().depth == p.depth) {
        distinct.back().weight += p.weight;
      } else {
        distinct.push_back(p);
      }
    }
    return distinct;
  }

  void add_rungs(Plan& plan) const {
    const std::vector<DemandPoint> pooled = histogram();
    const int budgets[] = {options.checkpoints, 2 * options.checkpoints};
    std::vector<DemandPoint> demand;
    int step = 0;
    for (; rung_length(step) <= longest; ++step) {
      const std::int32_t length = rung_length(step);
      rung_demand(pooled, length, options.prior_samples, demand);
      const auto placed = place_checkpoints_each(demand, budgets);
      plan.rungs.push_back({length, narrowed(placed[0].positions), narrowed(placed[1].positions)});
    }
    plan.reach = plan.rungs.empty() ? 0 : rung_length(step);
  }

  // Each remembered overlap under the rung its prompt would have been placed by.
  double expected_recompute(const Plan& plan) const {
    double total = 0;
    double mass = 0;
    double weight = 1;
    for (auto it = seen.rbegin(); it != seen.rend(); ++it) {
      std::int32_t near = 0;
      if (const Plan::Rung* rung = rung_for(plan, it->length)) {
        const auto above =
            std::upper_bound(rung->positions.begin(), rung->positions.end(), it->depth);
        if (above != rung->positions.begin()) near = *std::prev(above);
      }
      total += weight * (it->depth - near);
      mass += weight;
      weight *= options.decay;
    }
    return mass > 0 ? total / mass : 0;
  }
};

DpPlanner::DpPlanner(PlannerOptions options) : impl_(std::make_shared<Impl>()) {
  impl_->options = options;
}

void DpPlanner::observe(const Observation& observation) {
  Impl& d = *impl_;
  const std::int32_t length = std::min(observation.length, d.options.max_length);
  d.longest = std::max(d.longest, length);
  ++d.observations;
  if (observation.overlap <= 0) return;
  d.seen.push_back({std::min(observation.overlap, length), length});
  if (d.seen.size() > kRemembered) d.seen.pop_front();
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
  plan->observations = d.observations;
  d.add_rungs(*plan);
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
  const auto parsed = parse_policy(policy_spelling);
  if (parsed.ok() && parsed->interior == PolicySpelling::Interior::dp) {
    options.checkpoints = parsed->checkpoints;
  }
  if (context_length > 0) options.max_length = context_length;
  return options;
}

}  // namespace cairn::engine
