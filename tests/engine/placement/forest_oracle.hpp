// SPDX-License-Identifier: Apache-2.0
// Forests at random, and the forest problem solved by looking at every set of states.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/placement/forest_solver.hpp"

namespace cairn::engine::oracle {

using Forest = std::vector<DemandNode>;

struct Measured {
  double cost = 0;
  double bytes = 0;
};

// Straight from the definition; bit i of `chosen`: node i holds a state.
inline Measured measure(const Forest& forest, unsigned chosen, CostModel cost) {
  Measured m;
  unsigned kept = 0;
  for (std::size_t i = 0; i < forest.size(); ++i) {
    double near = 0;
    for (auto v = static_cast<std::int32_t>(i); v >= 0;
         v = forest[static_cast<std::size_t>(v)].parent) {
      if (chosen >> v & 1U) {
        near = cost(static_cast<double>(forest[static_cast<std::size_t>(v)].depth));
        break;
      }
    }
    m.cost += forest[i].demand * (cost(static_cast<double>(forest[i].depth)) - near);
    if ((chosen >> i & 1U) == 0) continue;
    m.bytes += forest[i].state_bytes;
    for (auto v = static_cast<std::int32_t>(i); v >= 0;
         v = forest[static_cast<std::size_t>(v)].parent) {
      kept |= 1U << v;
    }
  }
  for (std::size_t i = 0; i < forest.size(); ++i) {
    if (kept >> i & 1U) m.bytes += forest[i].edge_bytes;
  }
  return m;
}

// Every set of states that pins and can_hold allow.
inline std::vector<Measured> every_plan(const Forest& forest, CostModel cost) {
  unsigned may = 0, must = 0;
  for (std::size_t i = 0; i < forest.size(); ++i) {
    if (forest[i].can_hold) may |= 1U << i;
    if (forest[i].pinned) must |= 1U << i;
  }
  std::vector<Measured> plans;
  for (unsigned set = 0; set < 1U << forest.size(); ++set) {
    if ((set & must) == must && (set & ~may) == 0) plans.push_back(measure(forest, set, cost));
  }
  return plans;
}

inline double best_lagrangian(const std::vector<Measured>& plans, double price) {
  double best = HUGE_VAL;
  for (const Measured& m : plans) best = std::min(best, m.cost + price * m.bytes);
  return best;
}

// HUGE_VAL: nothing fits.
inline double best_within(const std::vector<Measured>& plans, double budget) {
  double best = HUGE_VAL;
  for (const Measured& m : plans) {
    if (m.bytes <= budget) best = std::min(best, m.cost);
  }
  return best;
}

struct ForestShape {
  int nodes = 9;
  double zero_demand = 0.3;  // shares of nodes
  double cannot_hold = 0.2;
  double pinned = 0.05;
  bool whole_numbers = true;  // every sum is then exact
  double back = 0.5;          // 1: a chain; 0: parents anywhere above
};

template <class Rng>
Forest random_forest(Rng& rng, const ForestShape& shape, double state_bytes, double kv_per_token) {
  std::uniform_real_distribution<double> unit(0, 1);
  Forest forest;
  for (int i = 0; i < shape.nodes; ++i) {
    DemandNode n;
    n.parent = unit(rng) < shape.back ? i - 1 : static_cast<std::int32_t>(unit(rng) * (i + 1)) - 1;
    const std::int64_t above = n.parent < 0 ? 0 : forest[static_cast<std::size_t>(n.parent)].depth;
    const auto step = 1 + static_cast<std::int64_t>(unit(rng) * 12);
    n.depth = above + step;
    if (unit(rng) >= shape.zero_demand) {
      n.demand = shape.whole_numbers ? std::floor(1 + 9 * unit(rng)) : std::pow(unit(rng), 4);
    }
    n.state_bytes = state_bytes;
    n.edge_bytes = kv_per_token * static_cast<double>(step);
    n.can_hold = unit(rng) >= shape.cannot_hold;
    n.pinned = n.can_hold && unit(rng) < shape.pinned;
    forest.push_back(n);
  }
  return forest;
}

// The same forest with its nodes listed in another order; moved[i] is the new index of node i.
template <class Rng>
Forest relisted(const Forest& forest, Rng& rng, std::vector<std::int32_t>& moved) {
  moved.resize(forest.size());
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = static_cast<std::int32_t>(i);
  std::shuffle(moved.begin(), moved.end(), rng);
  Forest out(forest.size());
  for (std::size_t i = 0; i < forest.size(); ++i) {
    DemandNode n = forest[i];
    if (n.parent >= 0) n.parent = moved[static_cast<std::size_t>(n.parent)];
    out[static_cast<std::size_t>(moved[i])] = n;
  }
  return out;
}

}  // namespace cairn::engine::oracle
