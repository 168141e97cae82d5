// SPDX-License-Identifier: Apache-2.0
// Forests of demand with the sizes of Qwen3.5-0.8B, for what times the exact solver.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/placement/forest_solver.hpp"

namespace cairn::bench {

enum class ForestShape : std::uint8_t { chain, comb, bushy, random };

inline std::int32_t parent_of(ForestShape shape, std::int32_t i, std::mt19937_64& rng) {
  switch (shape) {
    case ForestShape::chain:
      return i - 1;
    case ForestShape::comb:  // a chain with a long leaf at every node
      return i < 2 ? -1 : (i % 2 == 0 ? i - 2 : i - 1);
    case ForestShape::bushy:
      return i == 0 ? -1 : (i - 1) / 8;
    case ForestShape::random:
      return static_cast<std::int32_t>(rng() % static_cast<unsigned>(i + 1)) - 1;
  }
  return -1;
}

/// The same for the same arguments.
inline std::vector<engine::DemandNode> random_forest(ForestShape shape, std::int32_t nodes) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<engine::DemandNode> out;
  for (std::int32_t i = 0; i < nodes; ++i) {
    engine::DemandNode n;
    n.parent = parent_of(shape, i, rng);
    const auto edge = static_cast<std::int64_t>(1 + rng() % 200);
    n.depth = edge + (n.parent < 0 ? 0 : out[static_cast<std::size_t>(n.parent)].depth);
    n.demand = std::pow(unit(rng), 4);
    n.state_bytes = 20'201'472;
    n.edge_bytes = 12'288.0 * static_cast<double>(edge);
    n.can_hold = rng() % 8 != 0;
    out.push_back(n);
  }
  return out;
}

inline engine::ForestSolver solver_of(const std::vector<engine::DemandNode>& nodes) {
  return engine::ForestSolver::make(nodes, {1e-4, 1e-9}).take();
}

}  // namespace cairn::bench
