// SPDX-License-Identifier: Apache-2.0
// Slow and obvious answers that the placement programme is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/placement/dp.hpp"

namespace cairn::engine::oracle {

using Demand = std::vector<DemandPoint>;
using Positions = std::vector<std::int64_t>;

inline Demand uniform_demand(std::int64_t length) {
  Demand demand;
  for (std::int64_t t = 1; t <= length; ++t)
    demand.push_back({t, 1.0 / static_cast<double>(length)});
  return demand;
}

// Straight from the definition.
inline double cost_of(const Demand& demand, const Positions& positions, CostModel cost) {
  double total = 0;
  for (const DemandPoint& p : demand) {
    std::int64_t near = 0;
    for (const std::int64_t c : positions) {
      if (c <= p.depth) near = std::max(near, c);
    }
    total += p.weight * (cost(static_cast<double>(p.depth)) - cost(static_cast<double>(near)));
  }
  return total;
}

// Least cost over every subset of at most `count` of `candidates`.
inline double best_subset(const Demand& demand, const Positions& candidates, int count,
                          CostModel cost) {
  double best = HUGE_VAL;
  for (unsigned set = 0; set < 1U << candidates.size(); ++set) {
    if (__builtin_popcount(set) > count) continue;
    Positions chosen;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (set >> i & 1U) chosen.push_back(candidates[i]);
    }
    best = std::min(best, cost_of(demand, chosen, cost));
  }
  return best;
}

// The recurrence with its minimum taken by looking at every start: O(K^2 M). Distinct ascending
// depths.
inline double quadratic_scan(const Demand& demand, int count, CostModel cost, std::int64_t grain) {
  const std::size_t k = demand.size();
  std::vector<double> mass(k + 1), moment(k + 1);
  for (std::size_t i = 0; i < k; ++i) {
    mass[i + 1] = mass[i] + demand[i].weight;
    moment[i + 1] = moment[i] + demand[i].weight * cost(static_cast<double>(demand[i].depth));
  }
  std::vector<double> best = moment;
  for (int m = 0; m < count; ++m) {
    std::vector<double> next(k + 1);
    for (std::size_t j = 1; j <= k; ++j) {
      next[j] = HUGE_VAL;
      for (std::size_t s = 0; s < j; ++s) {
        const double at = cost(static_cast<double>(demand[s].depth / grain * grain));
        next[j] = std::min(next[j], best[s] + moment[j] - moment[s] - at * (mass[j] - mass[s]));
      }
    }
    best = next;
  }
  return best[k];
}

}  // namespace cairn::engine::oracle
