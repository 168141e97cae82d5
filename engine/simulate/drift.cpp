// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/drift.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace cairn::engine {
namespace {

constexpr double kPrior = 0.1;       // samples at every depth
constexpr double kLeastRate = 1e-9;  // per tick, where nobody has been

double hump(double x, double centre) {
  const double widths = (x - centre) / 0.03;
  return std::exp(-widths * widths);
}

void normalise(std::vector<DemandPoint>& demand) {
  double sum = 0;
  for (const DemandPoint& p : demand) sum += p.weight;
  for (DemandPoint& p : demand) p.weight /= sum;
}

double variation(std::span<const DemandPoint> p, std::span<const DemandPoint> q) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += std::abs(p[i].weight - q[i].weight);
  return sum / 2;
}

// Where the first hump is, how far apart they are, and how far the drift has moved them.
struct Humps {
  double first = 0, apart = 0, shift = 0;
};

Humps humps_at(const DriftOptions& options, Drift drift, int step) {
  const double done = static_cast<double>(step) / options.steps;
  switch (drift) {
    case Drift::none:
      return {0.2, 0.35, 0};
    case Drift::jump:
      return {0.15, 0.275, 0.07 * std::floor(4 * done)};
    case Drift::linear:
      return {0.1, 0.15, 0.5 * done};
    case Drift::periodic:
      return {0.2, 0.3, 0.1 * std::sin(5 * std::numbers::pi * done)};
  }
  return {};
}

}  // namespace

const char* to_string(Drift drift) {
  constexpr const char* kNames[] = {"none", "jump", "linear", "periodic"};
  return kNames[static_cast<std::size_t>(drift)];
}

std::vector<DemandPoint> drifting_demand(const DriftOptions& options, Drift drift, int step) {
  const Humps humps = humps_at(options, drift, step);
  std::vector<DemandPoint> demand;
  for (int i = 1; i <= options.depths; ++i) {
    const double x = static_cast<double>(i) / options.depths - humps.first - humps.shift;
    const double weight = hump(x, 0) + hump(x, humps.apart) + hump(x, 2 * humps.apart);
    demand.push_back({std::int64_t{i} * options.tokens_per_depth, 0.002 + weight});
  }
  normalise(demand);
  return demand;
}

ExponentialWeights::ExponentialWeights(const DriftOptions& options, double gamma)
    : gamma_(gamma),
      tokens_per_depth_(options.tokens_per_depth),
      seen_(static_cast<std::size_t>(options.depths), 0.0) {}

std::string ExponentialWeights::name() const {
  std::string text = std::to_string(gamma_);
  while (text.back() == '0' || text.back() == '.') text.pop_back();
  return "gamma " + text;
}

void ExponentialWeights::observe(std::int64_t depth) {
  for (double& w : seen_) w *= gamma_;
  seen_[static_cast<std::size_t>(depth / tokens_per_depth_ - 1)] += 1;
}

std::vector<DemandPoint> ExponentialWeights::estimate() const {
  std::vector<DemandPoint> demand;
  std::int64_t depth = 0;
  for (const double w : seen_) demand.push_back({depth += tokens_per_depth_, w + kPrior});
  normalise(demand);
  return demand;
}

LearnedHazards::LearnedHazards(const DriftOptions& options)
    : tokens_per_depth_(options.tokens_per_depth),
      tree_(ByteCosts{.state_bytes = 1}),
      demand_(tree_),
      path_(static_cast<std::size_t>(options.depths), kNoPlanNode) {
  tree_.listen(&demand_);
  // Longer than the last depth, so that no overlap reaches its end.
  path_.push_back(tree_.add_leaf(kPlanRoot, options.depths * options.tokens_per_depth + 1));
  request(path_.back(), kPlanRoot);
}

PlanNode LearnedHazards::at_depth(std::int32_t depth) {
  const auto at = path_.begin() + (depth / tokens_per_depth_ - 1);
  if (*at == kNoPlanNode) {
    const auto below = std::find_if(at, path_.end(), [](PlanNode n) { return n != kNoPlanNode; });
    *at = tree_.split(*below, depth);
  }
  return *at;
}

void LearnedHazards::request(PlanNode end, PlanNode overlap) {
  demand_.observe({.tick = ++tick_,
                   .length = tree_[end].depth,
                   .overlap = tree_[overlap].depth,
                   .end_node = end,
                   .overlap_node = overlap,
                   .structure = {}});
}

// One token of its own, which nobody asks for again.
void LearnedHazards::observe(std::int64_t depth) {
  const PlanNode overlap = at_depth(static_cast<std::int32_t>(depth));
  const PlanNode end = tree_.add_leaf(overlap, tree_[overlap].depth + 1);
  request(end, overlap);
  tree_.remove(end);
}

std::vector<DemandPoint> LearnedHazards::estimate() const {
  std::vector<DemandPoint> demand;
  for (std::size_t i = 0; i + 1 < path_.size(); ++i) {
    const double rate = path_[i] == kNoPlanNode ? 0 : demand_.own_rate(path_[i]);
    demand.push_back(
        {static_cast<std::int64_t>(i + 1) * tokens_per_depth_, std::max(rate, kLeastRate)});
  }
  normalise(demand);
  return demand;
}

std::vector<std::unique_ptr<DemandEstimator>> drift_estimators(const DriftOptions& options) {
  std::vector<std::unique_ptr<DemandEstimator>> all;
  for (const double gamma : {0.9, 0.99, 0.999, 1.0}) {
    all.push_back(std::make_unique<ExponentialWeights>(options, gamma));
  }
  all.push_back(std::make_unique<LearnedHazards>(options));
  return all;
}

std::vector<DriftStep> run_drift(const DriftOptions& options, Drift drift,
                                 DemandEstimator& estimator) {
  std::mt19937_64 rng(options.seed);
  const double whole = static_cast<double>(options.depths) * options.tokens_per_depth;
  std::vector<DemandPoint> estimate;
  std::vector<std::int64_t> plan;
  std::vector<DriftStep> steps;
  for (int step = 0; step < options.steps; ++step) {
    const auto truth = drifting_demand(options, drift, step);
    if (step % options.replan_every == 0) {
      estimate = estimator.estimate();
      plan = place_checkpoints(estimate, options.checkpoints).positions;
    }
    const double least = place_checkpoints(truth, options.checkpoints).cost;
    steps.push_back({placement_cost(truth, plan) - least, whole * variation(truth, estimate)});
    double u = std::uniform_real_distribution<double>(0, 1)(rng);
    std::size_t drawn = 0;
    while (drawn + 1 < truth.size() && u > truth[drawn].weight) u -= truth[drawn++].weight;
    estimator.observe(truth[drawn].depth);
  }
  return steps;
}

DriftStep mean(std::span<const DriftStep> steps) {
  DriftStep sum;
  for (const DriftStep& s : steps) {
    sum.regret += s.regret / static_cast<double>(steps.size());
    sum.bound += s.bound / static_cast<double>(steps.size());
  }
  return sum;
}

int recovery_steps(std::span<const DriftStep> steps, int from, int window, double tokens) {
  const auto end = static_cast<int>(steps.size());
  for (int at = from; at + window <= end; ++at) {
    const auto next = steps.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(window));
    if (mean(next).regret <= tokens) return at - from;
  }
  return end - from;
}

}  // namespace cairn::engine
