// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_solver.hpp"
#include "tests/engine/placement/forest_oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;
using oracle::Forest;

namespace {

ForestPlan solved(const Forest& forest, CostModel cost, double budget) {
  auto plan = ForestSolver::make(forest, cost)->solve_within(budget);
  if (!plan) FAIL(plan.error().message);
  return plan.take();
}

// max over price of min over plans of cost + price (bytes - budget): at a crossing of two plans.
double best_bound(const std::vector<oracle::Measured>& plans, double budget) {
  double best = oracle::best_lagrangian(plans, 0);
  for (const auto& fits : plans) {
    if (fits.bytes > budget) continue;
    for (const auto& over : plans) {
      if (over.bytes <= budget || over.cost >= fits.cost) continue;
      const double price = (fits.cost - over.cost) / (over.bytes - fits.bytes);
      best = std::max(best, oracle::best_lagrangian(plans, price) - price * budget);
    }
  }
  return best;
}

}  // namespace

TEST_CASE("bound <= best plan <= ours within every budget of thousands of forests") {
  std::mt19937_64 rng(51);
  int exact = 0, all = 0;
  for (int round = 0; round < 1500; ++round) {
    INFO("round " << round);
    oracle::ForestShape shape;
    shape.nodes = 1 + static_cast<int>(rng() % 9);
    shape.back = 0.3;
    shape.whole_numbers = round % 2 == 0;
    const CostModel cost{1, round % 3 == 0 ? 0.5 : 0.0};
    const Forest forest =
        oracle::random_forest(rng, shape, static_cast<double>(rng() % 20), 1.0 * (round % 3));
    const auto plans = oracle::every_plan(forest, cost);
    for (int i = 0; i < 4; ++i) {
      const auto budget = static_cast<double>(rng() % 120);
      const double best = oracle::best_within(plans, budget);
      auto plan = ForestSolver::make(forest, cost)->solve_within(budget);
      REQUIRE(plan.ok() == (best < HUGE_VAL));
      if (!plan) continue;
      const double slack = 1e-9 * (1 + best);
      REQUIRE(plan->bytes <= budget);
      REQUIRE(plan->bound <= best + slack);
      REQUIRE(best <= plan->cost + slack);
      REQUIRE(plan->gap() >= 0);
      ++all;
      exact += plan->cost <= best + slack ? 1 : 0;
    }
  }
  CAPTURE(exact, all);
  CHECK(exact > all * 98 / 100);
}

TEST_CASE("free bytes that are worth something are left free unless a state saves more") {
  std::mt19937_64 rng(57);
  int exact = 0, all = 0;
  for (int round = 0; round < 1000; ++round) {
    INFO("round " << round);
    oracle::ForestShape shape;
    shape.nodes = 1 + static_cast<int>(rng() % 8);
    const Forest forest = oracle::random_forest(rng, shape, 10, 1.0 * (round % 2));
    const auto plans = oracle::every_plan(forest, {});
    const auto budget = static_cast<double>(rng() % 120);
    const double worth = 0.05 * static_cast<double>(1 + rng() % 20);
    double best = HUGE_VAL;
    for (const auto& p : plans) {
      if (p.bytes <= budget) best = std::min(best, p.cost + worth * p.bytes);
    }
    auto plan = ForestSolver::make(forest, {})->solve_within(budget, Effort::exchange, worth);
    REQUIRE(plan.ok() == (best < HUGE_VAL));
    if (!plan) continue;
    const double slack = 1e-9 * (1 + best);
    const double ours = plan->cost + worth * plan->bytes;
    REQUIRE(plan->bytes <= budget);
    REQUIRE(plan->bound <= oracle::best_within(plans, budget) + slack);
    REQUIRE(ours >= best - slack);
    ++all;
    exact += ours <= best + slack ? 1 : 0;
  }
  CAPTURE(exact, all);
  CHECK(exact > all * 97 / 100);
}

TEST_CASE("the bound is the best that any price can prove") {
  std::mt19937_64 rng(52);
  for (int round = 0; round < 300; ++round) {
    INFO("round " << round);
    oracle::ForestShape shape;
    shape.nodes = 7;
    shape.pinned = 0;
    const Forest forest = oracle::random_forest(rng, shape, 7, 1.0 * (round % 2));
    const auto plans = oracle::every_plan(forest, {});
    for (const double budget : {0.0, 8.0, 20.0, 45.0, 1e6}) {
      const ForestPlan plan = solved(forest, {}, budget);
      REQUIRE(plan.bound == Approx(best_bound(plans, budget)).epsilon(1e-9));
      // and it is the value of the plan's own price
      REQUIRE(
          plan.bound ==
          Approx(oracle::best_lagrangian(plans, plan.price) - plan.price * budget).epsilon(1e-9));
    }
  }
}

TEST_CASE("a budget for everything is met at price 0 without a gap or a useless state") {
  std::mt19937_64 rng(53);
  for (int round = 0; round < 200; ++round) {
    oracle::ForestShape shape;
    shape.nodes = 40;
    shape.pinned = 0;
    const Forest forest = oracle::random_forest(rng, shape, 5, 1);
    const ForestPlan plan = solved(forest, {}, 1e9);
    CHECK(plan.price == 0);
    CHECK(plan.gap() == 0);
    CHECK(plan.gap_ratio() == 0);
    for (const std::int32_t s : plan.states) CHECK(forest[static_cast<std::size_t>(s)].can_hold);
    CHECK(plan.cost == ForestSolver::make(forest, {})->solve_at(0).cost);
  }
}

TEST_CASE("one chain with free KV and room for M states equals the single-path programme") {
  std::mt19937_64 rng(54);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < 400; ++round) {
    // Small whole weights make ties, uniform ones whole runs of equally good prices.
    const int kind = round % 4;
    const int nodes = 2 + static_cast<int>(rng() % 40);
    const CostModel cost{1, kind == 3 ? 0.125 : 0.0};
    Forest forest;
    std::vector<DemandPoint> demand;
    std::int64_t depth = 0;
    for (int i = 0; i < nodes; ++i) {
      depth += kind == 0 ? 1 : 1 + static_cast<std::int64_t>(rng() % 5);
      const double weight = kind == 0   ? 1
                            : kind == 1 ? static_cast<double>(rng() % 4)
                                        : std::pow(unit(rng), 3);
      forest.push_back({.parent = i - 1, .depth = depth, .demand = weight, .state_bytes = 64});
      demand.push_back({depth, weight});
    }
    for (int m = 0; m <= 8; ++m) {
      INFO("round " << round << ", " << nodes << " depths, " << m << " states");
      const ForestPlan plan = solved(forest, cost, 64.0 * m + 3);
      REQUIRE(plan.states.size() <= static_cast<std::size_t>(m));
      REQUIRE(plan.cost == Approx(place_checkpoints(demand, m, cost).cost).epsilon(1e-9));
    }
  }
}

TEST_CASE("equal documents are filled up to the last state that fits") {
  Forest forest;
  for (int i = 0; i < 5000; ++i) {
    forest.push_back({.parent = -1, .depth = 100, .demand = 1, .state_bytes = 10, .edge_bytes = 5});
  }
  for (const int fit : {0, 1, 777, 4999}) {
    const ForestPlan plan = solved(forest, {}, 15.0 * fit + 14);
    CHECK(plan.states.size() == static_cast<std::size_t>(fit));
    CHECK(plan.gap_ratio() < 1.0 / (5000 - fit));
  }
}

TEST_CASE("what a price leaves over is filled with the best state per byte") {
  // The first two fit and earn most per byte, the third needs more than is left, the fourth fits.
  const Forest forest = {{.depth = 100, .demand = 10, .state_bytes = 10},
                         {.depth = 100, .demand = 9, .state_bytes = 10},
                         {.depth = 100, .demand = 80, .state_bytes = 100},
                         {.depth = 100, .demand = 1, .state_bytes = 10}};
  const ForestPlan plan = solved(forest, {}, 35);
  CHECK(plan.states == std::vector<std::int32_t>{0, 1, 3});
  CHECK(plan.cost == 8000);
  CHECK(plan.bound < plan.cost);
}

TEST_CASE("the best state per byte gives way to two that together save more") {
  const Forest forest = {{.depth = 61, .demand = 1, .state_bytes = 60},
                         {.depth = 50, .demand = 1, .state_bytes = 50},
                         {.depth = 50, .demand = 1, .state_bytes = 50}};
  CHECK(solved(forest, {}, 100).states == std::vector<std::int32_t>{1, 2});
  CHECK(solved(forest, {}, 99).states == std::vector<std::int32_t>{0});
}

TEST_CASE("KV that one state pays for makes its neighbours cheap to add") {
  // A long shared path with three ends: each alone costs 1010 bytes, together 1030.
  Forest forest = {{.depth = 1000, .state_bytes = 10, .edge_bytes = 1000, .can_hold = false}};
  for (int i = 0; i < 3; ++i) {
    forest.push_back({.parent = 0, .depth = 1001, .demand = 1, .state_bytes = 10});
  }
  CHECK(solved(forest, {}, 1009).states.empty());
  CHECK(solved(forest, {}, 1010).states.size() == 1);
  CHECK(solved(forest, {}, 1029).states.size() == 2);
  CHECK(solved(forest, {}, 1030).states.size() == 3);
}

TEST_CASE("a budget below the pinned states is refused in the user's terms") {
  const Forest forest = {
      {.depth = 10, .demand = 1, .state_bytes = 100, .edge_bytes = 7},
      {.parent = 0, .depth = 20, .state_bytes = 100, .edge_bytes = 7, .pinned = true}};
  const auto refused = ForestSolver::make(forest, {})->solve_within(113);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().param == "budget_bytes");
  CHECK(refused.error().message.find("114") != std::string::npos);
  CHECK(refused.error().message.find("113") != std::string::npos);
  CHECK(solved(forest, {}, 114).states == std::vector<std::int32_t>{1});
}

TEST_CASE("within no budget is a state kept that saves nothing") {
  std::mt19937_64 rng(56);
  for (int round = 0; round < 1500; ++round) {
    INFO("round " << round);
    oracle::ForestShape shape;
    shape.nodes = 9 + 3 * (round % 5);
    shape.zero_demand = 0.6;
    shape.back = 0.4;
    const CostModel cost{1.0 * (round % 2), 1};
    const Forest forest = oracle::random_forest(rng, shape, static_cast<double>(rng() % 9),
                                                static_cast<double>(rng() % 3));
    ForestSolver solver = ForestSolver::make(forest, cost).take();
    const auto plan = solver.solve_within(static_cast<double>(rng() % 150));
    if (!plan) continue;
    for (const std::int32_t s : plan->states) {
      if (forest[static_cast<std::size_t>(s)].pinned) continue;
      std::vector<std::int32_t> others;
      for (const std::int32_t o : plan->states) {
        if (o != s) others.push_back(o);
      }
      REQUIRE(solver.measure(others).cost > plan->cost);
    }
  }
}

TEST_CASE("large forests leave gaps of a few states") {
  std::mt19937_64 rng(55);
  oracle::ForestShape shape;
  shape.nodes = 3000;
  shape.whole_numbers = false;
  shape.pinned = 0;
  for (const double back : {0.2, 0.9}) {
    shape.back = back;
    const Forest forest = oracle::random_forest(rng, shape, 100, 1);
    for (const double budget : {3000.0, 30'000.0, 100'000.0}) {
      const ForestPlan plan = solved(forest, {}, budget);
      CHECK(plan.bytes <= budget);
      CHECK(plan.bytes > 0.98 * budget);
      CHECK(plan.gap_ratio() < 0.01);
    }
  }
}
