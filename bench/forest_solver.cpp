// SPDX-License-Identifier: Apache-2.0
// Times of the exact forest solver, on deep and bushy forests of several sizes. Prints one line per
// fact; exits 1 when one is missed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "bench/timing.hpp"
#include "engine/placement/forest_solver.hpp"

using namespace cairn::engine;
using cairn::bench::best_seconds;

namespace {

enum class Shape : std::uint8_t { chain, comb, bushy, random };

std::int32_t parent_of(Shape shape, std::int32_t i, std::mt19937_64& rng) {
  switch (shape) {
    case Shape::chain:
      return i - 1;
    case Shape::comb:  // a chain with a long leaf at every node
      return i < 2 ? -1 : (i % 2 == 0 ? i - 2 : i - 1);
    case Shape::bushy:
      return i == 0 ? -1 : (i - 1) / 8;
    case Shape::random:
      return static_cast<std::int32_t>(rng() % static_cast<unsigned>(i + 1)) - 1;
  }
  return -1;
}

std::vector<DemandNode> forest(Shape shape, std::int32_t nodes) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<DemandNode> out;
  for (std::int32_t i = 0; i < nodes; ++i) {
    DemandNode n;
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

ForestSolver solver_of(const std::vector<DemandNode>& nodes) {
  return ForestSolver::make(nodes, {1e-4, 1e-9}).take();
}

int missed = 0;

void fact(const char* what, int nodes, double ms, double limit_ms, std::size_t states) {
  const bool ok = ms <= limit_ms;
  missed += ok ? 0 : 1;
  std::printf("%-22s %7d nodes %10.3f ms  (at most %.1f ms) %7zu states%s\n", what, nodes, ms,
              limit_ms, states, ok ? "" : "  MISSED");
}

}  // namespace

int main() {
  const std::pair<Shape, const char*> shapes[] = {{Shape::chain, "chain"},
                                                  {Shape::comb, "comb"},
                                                  {Shape::bushy, "bushy"},
                                                  {Shape::random, "random"}};
  const std::pair<int, double> sizes[] = {{120, 0.1}, {820, 2}, {100'000, 150}};
  for (const auto& [shape, name] : shapes) {
    for (const auto& [nodes, limit_ms] : sizes) {
      const auto listed = forest(shape, nodes);
      ForestSolver solver = solver_of(listed);
      const double budget = solver.layout().total_bytes / 10;
      const double price = solver.solve_within(budget)->price;
      std::size_t states = 0;
      const int rounds = nodes > 1000 ? 7 : 200;
      // Around the price at which a tenth of all bytes is kept, and where nearly all or none is.
      for (const double factor : {1.0, 1e-3, 1e3}) {
        const double s =
            best_seconds(rounds, [&] { states = solver.solve_at(price * factor).states.size(); });
        fact((std::string(name) + (factor == 1  ? ""
                                   : factor < 1 ? ", cheap"
                                                : ", dear"))
                 .c_str(),
             nodes, s * 1e3, limit_ms, states);
      }
      double s =
          best_seconds(rounds, [&] { states = solver_of(listed).solve_at(price).states.size(); });
      fact((std::string(name) + ", listed anew").c_str(), nodes, s * 1e3, limit_ms, states);
      s = best_seconds(nodes > 1000 ? 1 : 20,
                       [&] { states = solver.solve_within(budget)->states.size(); });
      fact((std::string(name) + ", budget").c_str(), nodes, s * 1e3, limit_ms * 20, states);
    }
  }
  return missed == 0 ? 0 : 1;
}
