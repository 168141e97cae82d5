// SPDX-License-Identifier: Apache-2.0
// Placement on one retained prefix while its demand drifts: what planning from an estimate costs
// above planning from the truth, beside the bound F(N) TV of the two demands (placement.md
// section 2).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/placement/demand_forest.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

struct DriftOptions {
  int depths = 48;
  int tokens_per_depth = 64;
  int steps = 4000;  // requests
  int checkpoints = 3;
  int replan_every = 10;
  std::uint64_t seed = 31;
};

/// Three humps over the depths that stay, shift at once every quarter, move on steadily, or swing.
enum class Drift : std::uint8_t { none, jump, linear, periodic };
inline constexpr std::array kDrifts = {Drift::none, Drift::jump, Drift::linear, Drift::periodic};
const char* to_string(Drift drift);

/// The true demand at a step; weights sum to 1.
std::vector<DemandPoint> drifting_demand(const DriftOptions& options, Drift drift, int step);

/// Learns where overlaps end from one request after another. Depths are multiples of
/// tokens_per_depth.
class DemandEstimator {
 public:
  virtual ~DemandEstimator() = default;
  virtual std::string name() const = 0;
  virtual void observe(std::int64_t depth) = 0;
  /// A weight for each of the depths, ascending; they sum to 1.
  virtual std::vector<DemandPoint> estimate() const = 0;
};

/// Counts that weigh gamma^age, over a small uniform prior.
class ExponentialWeights final : public DemandEstimator {
 public:
  ExponentialWeights(const DriftOptions& options, double gamma);
  std::string name() const override;
  void observe(std::int64_t depth) override;
  std::vector<DemandPoint> estimate() const override;

 private:
  double gamma_;
  std::int64_t tokens_per_depth_;
  std::vector<double> seen_;
};

/// The rates of placement.md section 4: every request is a prompt that leaves the retained one at
/// the depth.
class LearnedHazards final : public DemandEstimator {
 public:
  explicit LearnedHazards(const DriftOptions& options);
  std::string name() const override { return "hazards"; }
  void observe(std::int64_t depth) override;
  std::vector<DemandPoint> estimate() const override;

 private:
  PlanNode at_depth(std::int32_t depth);
  void request(PlanNode end, PlanNode overlap);

  std::int32_t tokens_per_depth_;
  PlanTree tree_;
  DemandForest demand_;
  std::vector<PlanNode> path_;  // by depth, then the end; kNoPlanNode where nothing has split yet
  std::uint64_t tick_ = 0;
};

/// gamma = 0.9, 0.99, 0.999, 1, and the hazards.
std::vector<std::unique_ptr<DemandEstimator>> drift_estimators(const DriftOptions& options);

/// Tokens per request: expected recompute above the optimum of the demand of the moment, and what
/// bounds it.
struct DriftStep {
  double regret = 0;
  double bound = 0;
};

/// Draws requests from the drifting demand (the same for every estimator) and re-plans from the
/// estimate.
std::vector<DriftStep> run_drift(const DriftOptions& options, Drift drift,
                                 DemandEstimator& estimator);

DriftStep mean(std::span<const DriftStep> steps);

/// Requests after `from` until the mean regret of the next `window` is at most `tokens`; those to
/// the end of the run if it never is.
int recovery_steps(std::span<const DriftStep> steps, int from, int window, double tokens);

}  // namespace cairn::engine
