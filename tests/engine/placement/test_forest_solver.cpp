// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_solver.hpp"

#include "tests/engine/placement/forest_oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;
using oracle::Forest;

namespace {

ForestSolver solver_of(const Forest& forest, CostModel cost = {}) {
  auto made = ForestSolver::make(forest, cost);
  if (!made) FAIL(made.error().message);
  return made.take();
}

unsigned bits(const std::vector<std::int32_t>& nodes) {
  unsigned set = 0;
  for (const std::int32_t n : nodes) set |= 1U << n;
  return set;
}

using Nodes = std::vector<std::int32_t>;

// Costs, bytes and the edges as the definition has them; pins and can_hold respected.
void check_plan(const Forest& forest, CostModel cost, const ForestPlan& plan) {
  const oracle::Measured m = oracle::measure(forest, bits(plan.states), cost);
  REQUIRE(plan.cost == Approx(m.cost).epsilon(1e-9).margin(1e-9));
  REQUIRE(plan.bytes == Approx(m.bytes).epsilon(1e-12));
  REQUIRE(std::is_sorted(plan.states.begin(), plan.states.end()));
  REQUIRE(std::is_sorted(plan.kept_edges.begin(), plan.kept_edges.end()));
  const unsigned states = bits(plan.states);
  unsigned kept = 0;
  for (std::size_t i = 0; i < forest.size(); ++i) {
    if (states >> i & 1U) REQUIRE(forest[i].can_hold);
    if (forest[i].pinned) REQUIRE((states >> i & 1U));
    if ((states >> i & 1U) == 0) continue;
    for (auto v = static_cast<std::int32_t>(i); v >= 0;
         v = forest[static_cast<std::size_t>(v)].parent) {
      kept |= 1U << v;
    }
  }
  REQUIRE(bits(plan.kept_edges) == kept);
}

struct Instance {
  Forest forest;
  CostModel cost;
};

// Rising and flat costs, free KV, free states, equal F (a = 0: depths 0 and 1), many roots.
template <class Rng>
Instance random_instance(Rng& rng, int round) {
  oracle::ForestShape shape;
  shape.nodes = 1 + static_cast<int>(rng() % 9);
  shape.whole_numbers = round % 3 != 0;
  shape.back = round % 5 == 0 ? 1 : 0.3;
  if (round % 4 == 0) shape.cannot_hold = shape.pinned = 0;
  const double state = round % 11 == 0 ? 0 : static_cast<double>(1 + rng() % 20);
  const double kv = round % 7 == 0 ? 0 : static_cast<double>(rng() % 4);
  constexpr CostModel kCosts[] = {{1, 0}, {1, 2}, {0, 1}, {3, 0.25}};
  return {oracle::random_forest(rng, shape, state, kv), kCosts[rng() % 4]};
}

constexpr double kPrices[] = {0, 1e-6, 0.01, 0.1, 0.3, 0.5, 1, 2, 3, 5, 10, 30, 1000};

}  // namespace

TEST_CASE("no set of states beats the solver at any price on thousands of forests") {
  std::mt19937_64 rng(41);
  for (int round = 0; round < 4000; ++round) {
    INFO("round " << round);
    const Instance x = random_instance(rng, round);
    const auto plans = oracle::every_plan(x.forest, x.cost);
    ForestSolver solver = solver_of(x.forest, x.cost);
    for (const double price : kPrices) {
      const ForestPlan plan = solver.solve_at(price);
      const double best = oracle::best_lagrangian(plans, price);
      REQUIRE(plan.lagrangian() == Approx(best).epsilon(1e-9).margin(1e-12));
      check_plan(x.forest, x.cost, plan);
    }
  }
}

TEST_CASE("at no price is a state kept that saves nothing") {
  std::mt19937_64 rng(42);
  for (int round = 0; round < 1500; ++round) {
    const Instance x = random_instance(rng, round);
    ForestSolver solver = solver_of(x.forest, x.cost);
    for (const double price : kPrices) {
      const ForestPlan plan = solver.solve_at(price);
      for (const std::int32_t s : plan.states) {
        if (x.forest[static_cast<std::size_t>(s)].pinned) continue;
        const unsigned others = bits(plan.states) & ~(1U << s);
        REQUIRE(oracle::measure(x.forest, others, x.cost).cost > plan.cost * (1 + 1e-13));
      }
    }
  }
}

TEST_CASE("bytes fall and cost rises with the price, and the optimum is concave in it") {
  std::mt19937_64 rng(43);
  for (int round = 0; round < 60; ++round) {
    oracle::ForestShape shape;
    shape.nodes = 300;
    shape.whole_numbers = false;
    shape.back = round % 3 == 0 ? 0.95 : 0.4;
    const Forest forest = oracle::random_forest(rng, shape, 50, round % 2);
    ForestSolver solver = solver_of(forest, {1, round % 4 == 0 ? 0.1 : 0.0});
    ForestPlan last = solver.solve_at(0);
    for (int i = 0; i < 29; ++i) {
      const double price = 1e-4 * std::pow(1.5, i);
      const ForestPlan plan = solver.solve_at(price);
      REQUIRE(plan.bytes <= last.bytes);
      REQUIRE(plan.cost >= last.cost * (1 - 1e-12));
      // A tangent of the concave optimum lies above it on both sides.
      REQUIRE(plan.lagrangian() <= (last.cost + price * last.bytes) * (1 + 1e-12));
      REQUIRE(last.lagrangian() <= (plan.cost + last.price * plan.bytes) * (1 + 1e-12));
      last = plan;
    }
  }
}

TEST_CASE("the order in which nodes are listed changes nothing") {
  std::mt19937_64 rng(44);
  for (int round = 0; round < 400; ++round) {
    oracle::ForestShape shape;
    shape.nodes = 1 + static_cast<int>(rng() % 60);
    const Forest forest = oracle::random_forest(rng, shape, 8, 1);
    std::vector<std::int32_t> moved;
    const Forest other = oracle::relisted(forest, rng, moved);
    ForestSolver a = solver_of(forest), b = solver_of(other);
    for (const double price : kPrices) {
      const ForestPlan plan = a.solve_at(price);
      const ForestPlan same = b.solve_at(price);
      Nodes states, edges;
      for (const std::int32_t s : plan.states) states.push_back(moved[static_cast<std::size_t>(s)]);
      for (const std::int32_t e : plan.kept_edges) {
        edges.push_back(moved[static_cast<std::size_t>(e)]);
      }
      std::sort(states.begin(), states.end());
      std::sort(edges.begin(), edges.end());
      REQUIRE(same.states == states);
      REQUIRE(same.kept_edges == edges);
      REQUIRE(same.cost == plan.cost);
    }
  }
}

TEST_CASE("a chain and a comb of 300,000 nodes are solved without deep recursion") {
  for (const bool comb : {false, true}) {
    Forest forest(300'000);
    for (std::int32_t i = 0; i < 300'000; ++i) {
      DemandNode& n = forest[static_cast<std::size_t>(i)];
      n.parent = comb ? (i % 2 == 0 ? i - 2 : i - 1) : i - 1;
      if (n.parent < 0) n.parent = -1;
      n.depth = comb ? i / 2 + 1 + i % 2 : i + 1;
      n.demand = 1e-6 * (1 + i % 7);
      n.state_bytes = 100;
    }
    ForestSolver solver = solver_of(forest);
    const ForestPlan plan = solver.solve_at(1e-4);
    CHECK(plan.states.size() > 1000);
    CHECK(plan.states.size() < 299'000);
    CHECK(solver.measure(plan.states).cost == plan.cost);
  }
}

TEST_CASE("twice the nodes take twice the operations, on every shape and at every price") {
  std::uniform_real_distribution<double> unit(0, 1);
  enum class Shape : std::uint8_t { chain, comb, random };
  const auto operations = [&](Shape shape, std::int32_t nodes, double price) {
    std::mt19937_64 rng(46);
    Forest forest;
    for (std::int32_t i = 0; i < nodes; ++i) {
      DemandNode n;
      n.parent = i - 1;
      if (shape == Shape::comb && i > 1 && i % 2 == 0) n.parent = i - 2;
      if (shape == Shape::random) n.parent = static_cast<std::int32_t>(unit(rng) * (i + 1)) - 1;
      const auto above = n.parent < 0 ? 0 : forest[static_cast<std::size_t>(n.parent)].depth;
      n.depth = above + 1 + static_cast<std::int64_t>(100 * unit(rng));
      n.demand = std::pow(unit(rng), 4);
      n.state_bytes = 1000;
      n.edge_bytes = static_cast<double>(n.depth - above);
      n.can_hold = shape != Shape::comb || i % 2 == 1;  // ends come together all along the spine
      forest.push_back(n);
    }
    ForestSolver solver = solver_of(forest);
    solver.solve_at(price);
    return static_cast<double>(solver.operations());
  };
  for (const Shape shape : {Shape::chain, Shape::comb, Shape::random}) {
    for (const double price : {1e-4, 0.01, 1.0}) {
      const double small = operations(shape, 10'000, price);
      const double large = operations(shape, 20'000, price);
      CAPTURE(static_cast<int>(shape), price, small, large);
      CHECK(large <= 2.3 * small);
      CHECK(large <= 20'000 * std::log2(20'000));
    }
  }
}

TEST_CASE("magnitudes of demand and bytes leave the plan as it is") {
  std::mt19937_64 rng(45);
  for (int round = 0; round < 300; ++round) {
    const Instance x = random_instance(rng, 1);
    const Nodes plain = solver_of(x.forest, x.cost).solve_at(0.5).states;
    Forest scaled = x.forest;
    for (DemandNode& n : scaled) n.demand *= 0x1p-900;
    CHECK(solver_of(scaled, x.cost).solve_at(0x1p-901).states == plain);
    scaled = x.forest;
    for (DemandNode& n : scaled) n.demand *= 0x1p+700;
    CHECK(solver_of(scaled, x.cost).solve_at(0x1p+699).states == plain);
  }
}

TEST_CASE("a forest that is none is refused with the field and what was expected") {
  const DemandNode good{.parent = -1, .depth = 5, .demand = 1, .state_bytes = 1, .edge_bytes = 1};
  const auto refused = [&](const DemandNode& second, const char* param, const char* text) {
    const Forest forest{good, second};
    const auto made = ForestSolver::make(forest, {});
    REQUIRE_FALSE(made.ok());
    INFO(made.error().message);
    CHECK(made.error().code == ErrorCode::bad_request);
    CHECK(made.error().param == param);
    CHECK(made.error().message.find(text) != std::string::npos);
  };
  DemandNode n{.parent = 0, .depth = 9, .demand = 1};
  const auto with = [&](auto&& change) {
    DemandNode changed = n;
    change(changed);
    return changed;
  };
  refused(with([](DemandNode& x) { x.parent = 2; }), "nodes[1].parent", "one of the 2 nodes");
  refused(with([](DemandNode& x) { x.parent = -2; }), "nodes[1].parent", "got -2");
  refused(with([](DemandNode& x) { x.parent = 1; }), "nodes[1].depth", "more tokens than the 9");
  refused(with([](DemandNode& x) { x.depth = 5; }), "nodes[1].depth", "more tokens than the 5");
  refused(with([](DemandNode& x) { x.demand = -1; }), "nodes[1].demand", "at least 0");
  refused(with([](DemandNode& x) { x.demand = NAN; }), "nodes[1].demand", "finite");
  refused(with([](DemandNode& x) { x.state_bytes = HUGE_VAL; }), "nodes[1].state_bytes", "finite");
  refused(with([](DemandNode& x) { x.edge_bytes = -3; }), "nodes[1].edge_bytes", "at least 0");
  refused(with([](DemandNode& x) { x.can_hold = !(x.pinned = true); }), "nodes[1].pinned",
          "can_hold");
  refused(with([](DemandNode& x) { x.demand = 1e300; }), "nodes", "1e250");
  refused(with([](DemandNode& x) { x.state_bytes = 1e16; }), "nodes", "2^53");

  Forest cycle{good, n, n};
  cycle[1].parent = 2;
  cycle[2].parent = 1;
  cycle[2].depth = 11;
  CHECK(ForestSolver::make(cycle, {}).error().param == "nodes[1].depth");
}

TEST_CASE("an empty forest has an empty plan") {
  ForestSolver solver = solver_of({});
  CHECK(solver.solve_at(1).states.empty());
  CHECK(solver.solve_within(0)->bytes == 0);
}
