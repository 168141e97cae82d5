// SPDX-License-Identifier: Apache-2.0
// Times of the placement programme and of a full re-plan. Prints one line per fact; exits 1 when
// one is missed.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "bench/timing.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/planner.hpp"

using namespace cairn::engine;
using cairn::bench::best_seconds;

namespace {

std::vector<DemandPoint> random_demand(int depths) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> weight(0, 1);
  std::vector<DemandPoint> demand;
  for (int i = 1; i <= depths; ++i) demand.push_back({3 * i, weight(rng)});
  return demand;
}

double solve_seconds(int depths, int checkpoints) {
  const auto demand = random_demand(depths);
  return best_seconds(15, [&] { place_checkpoints(demand, checkpoints); });
}

double replan_seconds() {
  std::mt19937_64 rng(6);
  DpPlanner planner(planner_options_for("dp:4+branch", 262'144));
  for (int i = 0; i < 1000; ++i) {
    const auto length = static_cast<std::int32_t>(rng() % 262'144 + 1);
    planner.observe({length, static_cast<std::int32_t>(rng() % static_cast<unsigned>(length)), 0});
  }
  return best_seconds(15, [&] { planner.solve(); });
}

bool report(const char* what, double value, const char* unit, double limit) {
  const bool met = value <= limit;
  std::printf("%-48s %8.2f %s (at most %.2f)%s\n", what, value, unit, limit, met ? "" : "  MISSED");
  return met;
}

}  // namespace

int main() {
  const double large = solve_seconds(100'000, 30);
  const double doubled = solve_seconds(20'000, 10) / solve_seconds(10'000, 10);
  bool met = report("100,000 depths, 30 checkpoints", large * 1e3, "ms", 60);
  met = report("10,000 to 20,000 depths, 10 checkpoints", doubled, "times", 2.3) && met;
  met = report("full re-plan, 300 overlaps up to 262,144", replan_seconds() * 1e3, "ms", 5) && met;
  return met ? 0 : 1;
}
