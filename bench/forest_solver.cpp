// SPDX-License-Identifier: Apache-2.0
// Times of the exact forest solver, on deep and bushy forests of several sizes. Prints one line per
// fact; exits 1 when one is missed.
#include <cstdio>
#include <string>
#include <utility>

#include "bench/random_forest.hpp"
#include "bench/timing.hpp"

using namespace cairn::engine;
using namespace cairn::bench;

namespace {

int missed = 0;

void fact(const char* what, int nodes, double ms, double limit_ms, std::size_t states) {
  const bool ok = ms <= limit_ms;
  missed += ok ? 0 : 1;
  std::printf("%-22s %7d nodes %10.3f ms  (at most %.1f ms) %7zu states%s\n", what, nodes, ms,
              limit_ms, states, ok ? "" : "  MISSED");
}

}  // namespace

int main() {
  const std::pair<ForestShape, const char*> shapes[] = {{ForestShape::chain, "chain"},
                                                        {ForestShape::comb, "comb"},
                                                        {ForestShape::bushy, "bushy"},
                                                        {ForestShape::random, "random"}};
  const std::pair<int, double> sizes[] = {{120, 0.1}, {820, 2}, {100'000, 150}};
  for (const auto& [shape, name] : shapes) {
    for (const auto& [nodes, limit_ms] : sizes) {
      const auto listed = random_forest(shape, nodes);
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
