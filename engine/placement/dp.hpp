// SPDX-License-Identifier: Apache-2.0
// One retained prefix, M checkpoints: the exact placement programme (placement.md section 2; with
// F(t) = t and grain 1 the O(NM) programme of Shirokikh and Nikolenko, arXiv 2605.05219).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::engine {

/// F(t) = a t + b t (t - 1) / 2: cost of prefilling [0, t).
struct CostModel {
  double a = 1;
  double b = 0;
  double operator()(double t) const { return a * t + b * t * (t - 1) / 2; }
  /// F(to) - F(from), without the cancellation of two large values.
  double between(double from, double to) const {
    return (to - from) * (a + b * (to + from - 1) / 2);
  }
};

struct DemandPoint {
  std::int64_t depth = 0;  // > 0
  double weight = 0;       // >= 0
};

struct DpResult {
  std::vector<std::int64_t> positions;  // ascending multiples of the grain, at most M, none at 0
  double cost = 0;  // sum of weight * (F(depth) - F(nearest position at or below))
  std::int64_t operations =
      0;  // lines looked at: what O(K M) counts; the same for every budget of one call
};

/// Exact optimum for at most `checkpoints` positions on multiples of `grain`. Demand need not be
/// sorted or distinct. O(K M) after sorting (monotone hull). Throws nothing; weights and depths are
/// checked by the caller.
DpResult place_checkpoints(std::span<const DemandPoint> demand, int checkpoints,
                           CostModel cost = {}, std::int64_t grain = 1);

/// The same for several budgets out of one table: results in the order of `budgets`.
std::vector<DpResult> place_checkpoints_each(std::span<const DemandPoint> demand,
                                             std::span<const int> budgets, CostModel cost = {},
                                             std::int64_t grain = 1);

/// Cost of given positions (ascending) under a demand.
double placement_cost(std::span<const DemandPoint> demand, std::span<const std::int64_t> positions,
                      CostModel cost = {});

}  // namespace cairn::engine
