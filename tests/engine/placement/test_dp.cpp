// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/dp.hpp"

#include <limits>
#include <numeric>

#include "engine/placement/spacings.hpp"
#include "tests/engine/placement/oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::engine;
using oracle::Demand;
using oracle::Positions;

namespace {

template <class Rng>
int pick(Rng& rng, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(rng);
}

struct Instance {
  Demand demand;
  Positions candidates;
  CostModel cost;
  std::int64_t grain = 1;
  int budget = 0;
};

// Duplicates, zero weights, rising cost and coarse grains, all with small integers: every cost is
// exact.
template <class Rng>
Instance random_instance(Rng& rng, int max_depths) {
  Instance x;
  x.cost.a = pick(rng, 1, 3);
  x.cost.b = pick(rng, 0, 1) ? 0 : 2;
  x.grain = pick(rng, 0, 2) ? 1 : pick(rng, 2, 8);
  x.budget = pick(rng, 0, 5);
  const int depths = pick(rng, 1, max_depths);
  for (int i = 0; i < depths; ++i) {
    const int weight = pick(rng, 0, 4) ? pick(rng, 1, 20) : 0;
    const DemandPoint point{pick(rng, 1, 60), static_cast<double>(weight)};
    x.demand.push_back(point);
    if (pick(rng, 0, 4) == 0) x.demand.push_back({point.depth, 1.0 * pick(rng, 0, 5)});
    x.candidates.push_back(point.depth / x.grain * x.grain);
  }
  return x;
}

}  // namespace

TEST_CASE("uniform demand over 240 tokens costs 120.5 60.0 39.8 29.8 19.7 12.9 tokens") {
  const Demand demand = oracle::uniform_demand(240);
  const std::pair<int, double> published[] = {{0, 120.5}, {1, 60.0}, {2, 39.8},
                                              {3, 29.8},  {5, 19.7}, {8, 12.9}};
  for (const auto& [m, tokens] : published) {
    CHECK(std::abs(place_checkpoints(demand, m).cost - tokens) < 0.0501);
  }
}

TEST_CASE("under uniform demand balanced spacing is optimal but for rounding") {
  for (const std::int64_t n : {20, 64, 240, 1000}) {
    const Demand demand = oracle::uniform_demand(n);
    for (const int m : {0, 1, 2, 3, 5, 8, 13}) {
      const double best = place_checkpoints(demand, m).cost;
      const double balanced = placement_cost(demand, spaced_positions(Spacing::balanced, n, m));
      CHECK(best <= balanced + 1e-12);
      CHECK(balanced <= best + 0.5);  // segments differ by a token
      CHECK(std::abs(best - static_cast<double>(n) / (2 * (m + 1))) <= 0.5);
    }
  }
}

TEST_CASE("balanced spacing is minimax over every depth below the prompt's end") {
  const auto worst = [](const Positions& positions, std::int64_t n) {
    std::int64_t most = 0;
    for (std::int64_t t = 0; t < n; ++t) {
      std::int64_t near = 0;
      for (const std::int64_t c : positions) near = c <= t ? std::max(near, c) : near;
      most = std::max(most, t - near);
    }
    return most;
  };
  for (std::int64_t n = 1; n <= 13; ++n) {
    for (int m = 0; m < n; ++m) {
      std::int64_t best = n;
      for (unsigned set = 0; set < 1U << n; ++set) {
        if (__builtin_popcount(set) != m) continue;
        Positions chosen;
        for (int i = 0; i < n; ++i) {
          if (set >> i & 1U) chosen.push_back(i + 1);
        }
        best = std::min(best, worst(chosen, n));
      }
      CHECK(worst(spaced_positions(Spacing::balanced, n, m), n) == best);
    }
  }
}

TEST_CASE("the optimum falls with the number of checkpoints and by less each time") {
  std::mt19937_64 rng(11);
  std::uniform_real_distribution<double> weight(0, 1);
  std::vector<int> budgets(25);
  std::iota(budgets.begin(), budgets.end(), 0);
  for (int round = 0; round < 200; ++round) {
    Demand demand;
    const int depths = pick(rng, 1, 60);
    for (int i = 0; i < depths; ++i) demand.push_back({pick(rng, 1, 5000), weight(rng)});
    const CostModel cost{1, round % 2 ? 0.01 : 0};
    const auto results = place_checkpoints_each(demand, budgets, cost);
    const double slack = 1e-12 * results[0].cost;
    for (std::size_t m = 1; m < results.size(); ++m) {
      CHECK(results[m].cost <= results[m - 1].cost + slack);
      CHECK(results[m].positions.size() <= m);
      if (m < 2) continue;
      const double gain = results[m - 1].cost - results[m].cost;
      CHECK(gain <= results[m - 2].cost - results[m - 1].cost + slack);
    }
  }
}

TEST_CASE("no subset of the candidates beats the programme on thousands of instances") {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 4000; ++round) {
    const Instance x = random_instance(rng, round % 10 == 0 ? 12 : 8);
    const DpResult found = place_checkpoints(x.demand, x.budget, x.cost, x.grain);
    INFO("round " << round);
    REQUIRE(found.cost == oracle::best_subset(x.demand, x.candidates, x.budget, x.cost));
    REQUIRE(found.cost == oracle::cost_of(x.demand, found.positions, x.cost));
    REQUIRE(found.positions.size() <= static_cast<std::size_t>(x.budget));
    REQUIRE(std::is_sorted(found.positions.begin(), found.positions.end()));
    for (const std::int64_t p : found.positions) REQUIRE((p > 0 && p % x.grain == 0));
  }
}

TEST_CASE("no position off the demand's depths does better") {
  std::mt19937_64 rng(8);
  for (int round = 0; round < 300; ++round) {
    Instance x = random_instance(rng, 6);
    Positions everywhere;
    for (DemandPoint& p : x.demand) p.depth = (p.depth - 1) % 13 + 1;
    for (std::int64_t c = x.grain; c <= 13; c += x.grain) everywhere.push_back(c);
    const DpResult found = place_checkpoints(x.demand, x.budget, x.cost, x.grain);
    REQUIRE(found.cost == oracle::best_subset(x.demand, everywhere, x.budget, x.cost));
  }
}

TEST_CASE("the programme equals the quadratic scan at 2,000 depths") {
  std::mt19937_64 rng(9);
  std::uniform_real_distribution<double> weight(0, 1);
  for (const auto& [cost, grain] : {std::pair{CostModel{1, 0}, 1}, std::pair{CostModel{1, 1e-3}, 1},
                                    std::pair{CostModel{2, 0}, 64}}) {
    Demand demand;
    std::int64_t depth = 0;
    for (int i = 0; i < 2000; ++i)
      demand.push_back({depth += pick(rng, 1, 30), std::pow(weight(rng), 4)});
    const double fast = place_checkpoints(demand, 12, cost, grain).cost;
    CHECK(fast == Approx(oracle::quadratic_scan(demand, 12, cost, grain)).epsilon(1e-10));
  }
}

TEST_CASE("twice the depths or twice the checkpoints take twice the operations") {
  std::mt19937_64 rng(10);
  std::uniform_real_distribution<double> weight(0, 1);
  const auto operations = [&](int depths, int checkpoints) {
    Demand demand;
    for (int i = 1; i <= depths; ++i) demand.push_back({i * 3, weight(rng)});
    return static_cast<double>(place_checkpoints(demand, checkpoints).operations);
  };
  for (const int k : {5'000, 20'000}) {
    CHECK(operations(2 * k, 10) / operations(k, 10) == Approx(2).epsilon(0.05));
    CHECK(operations(k, 20) / operations(k, 10) == Approx(2).epsilon(0.05));
    CHECK(operations(k, 10) <= 4.0 * k * 10);
  }
}

TEST_CASE("weights and costs of any magnitude leave the placement as it is") {
  std::mt19937_64 rng(12);
  for (int round = 0; round < 200; ++round) {
    Instance x = random_instance(rng, 12);
    const Positions plain = place_checkpoints(x.demand, x.budget, x.cost, x.grain).positions;
    for (const double scale : {0x1p-1000, 0x1p+900}) {
      Demand scaled = x.demand;
      for (DemandPoint& p : scaled) p.weight *= scale;
      CHECK(place_checkpoints(scaled, x.budget, x.cost, x.grain).positions == plain);
      const CostModel cost{x.cost.a * 0x1p+300, x.cost.b * 0x1p+300};
      CHECK(place_checkpoints(x.demand, x.budget, cost, x.grain).positions == plain);
    }
  }
}

TEST_CASE("no demand, no weight and no budget place nothing") {
  CHECK(place_checkpoints({}, 3).positions.empty());
  CHECK(place_checkpoints(Demand{{5, 0}, {9, 0}}, 3).positions.empty());
  CHECK(place_checkpoints(Demand{{5, 1}}, 0).cost == 5);
  CHECK(place_checkpoints(Demand{{5, 1}}, 0).positions.empty());
  CHECK(place_checkpoints(Demand{{5, 1}}, 3, {}, 8).positions.empty());  // nothing below the grain
  CHECK(place_checkpoints(Demand{{5, 1}, {5, 2}}, 1).positions == Positions{5});
}

TEST_CASE("several budgets out of one table equal separate solves") {
  std::mt19937_64 rng(13);
  for (int round = 0; round < 100; ++round) {
    const Instance x = random_instance(rng, 12);
    const int budgets[] = {4, 0, 2, 8};
    const auto together = place_checkpoints_each(x.demand, budgets, x.cost, x.grain);
    for (std::size_t i = 0; i < 4; ++i) {
      const DpResult alone = place_checkpoints(x.demand, budgets[i], x.cost, x.grain);
      CHECK(together[i].positions == alone.positions);
      CHECK(together[i].cost == alone.cost);
    }
  }
}
