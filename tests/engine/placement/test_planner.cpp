// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/planner.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "engine/placement/dp.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

PlannerOptions options(int checkpoints = 4) {
  PlannerOptions o;
  o.checkpoints = checkpoints;
  return o;
}

using Positions = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("a planner that has seen no overlap publishes a plan without positions") {
  DpPlanner planner(options());
  planner.observe({5000, 0, 0});
  const auto plan = planner.solve();
  REQUIRE(plan);
  CHECK(plan->depths.empty());
  CHECK(positions_for(*plan, 5000).empty());
  CHECK(plan->expected_recompute_tokens == 0);
}

TEST_CASE("a plan's positions are those that a prompt is long enough for") {
  Plan plan;
  plan.depths = {40, 60, 200};
  CHECK(positions_for(plan, 59) == Positions{40});
  CHECK(positions_for(plan, 60) == Positions{40, 60});
  CHECK(positions_for(plan, 39).empty());
}

TEST_CASE("thousandths of a length are floored, and those that fall together are one position") {
  Plan plan;
  plan.scale = DepthScale::parent_share;
  plan.depths = {1, 333, 334, 1000};
  CHECK(positions_for(plan, 10'000) == Positions{10, 3330, 3340, 10'000});
  CHECK(positions_for(plan, 100) == Positions{33, 100});
  CHECK(positions_for(plan, 2'000'000'000).back() == 2'000'000'000);
}

TEST_CASE("a depth where overlaps keep ending gets a state exactly there") {
  DpPlanner planner(options());
  for (int i = 0; i < 30; ++i) planner.observe({4000 + i, 1733, 0});
  const auto plan = planner.solve();
  CHECK(plan->depths == Positions{1733});
  CHECK(plan->expected_recompute_tokens == 0);
}

TEST_CASE("old depths fade") {
  DpPlanner planner(options(1));
  for (int i = 0; i < 100; ++i) planner.observe({4000, 1000, 0});
  CHECK(planner.solve()->depths == Positions{1000});
  for (int i = 0; i < 300; ++i) planner.observe({4000, 3000, 0});
  CHECK(planner.solve()->depths == Positions{3000});
}

TEST_CASE("expected recompute is the decayed mean over the remembered overlaps") {
  DpPlanner planner(options(1));
  for (int i = 0; i < 200; ++i) planner.observe({4000, i % 2 ? 3000 : 2900, 0});
  const auto plan = planner.solve();
  const double expected = plan->expected_recompute_tokens;
  CHECK(expected > 30);
  CHECK(expected < 60);  // the state sits at 2,900: every second overlap recomputes 100
}

TEST_CASE("a re-plan is due every replan_every observations") {
  DpPlanner planner(options());
  for (int i = 0; i < 9; ++i) planner.observe({100, 0, 0});
  CHECK_FALSE(planner.due());
  planner.observe({100, 50, 0});
  CHECK(planner.due());
  CHECK(planner.solve()->epoch == 1);
  CHECK_FALSE(planner.due());
  CHECK(planner.observations() == 10);
  for (int i = 0; i < 10; ++i) planner.observe({100, 50, 0});
  const auto plan = planner.solve();
  CHECK(plan->epoch == 2);
  CHECK(plan->observations == 20);
}

TEST_CASE("overlaps beyond the limit count as ones at the limit") {
  PlannerOptions o = options();
  o.max_length = 1000;
  DpPlanner planner(o);
  planner.observe({2'000'000'000, 1'999'999'999, 0});
  CHECK(planner.solve()->depths == Positions{1000});
}

TEST_CASE("only the last overlaps are remembered") {
  PlannerOptions o = options(1);
  o.decay = 1;
  DpPlanner planner(o);
  for (int i = 0; i < 1000; ++i) planner.observe({4000, 1000, 0});
  for (int i = 0; i < 300; ++i) planner.observe({4000, 3000, 0});
  CHECK(planner.solve()->depths == Positions{3000});
  CHECK(planner.solve()->expected_recompute_tokens == 0);
}

TEST_CASE("on the scale of its parent an overlap's depth is a share of what was shared") {
  PlannerOptions o = options(1);
  o.scale = DepthScale::parent_share;
  DpPlanner planner(o);
  for (int i = 1; i <= 20; ++i) planner.observe({1000 * i, 900 * i, 0, 1200 * i});
  const auto plan = planner.solve();
  CHECK(plan->depths == Positions{750});
  CHECK(positions_for(*plan, 4000) == Positions{3000});
  DpPlanner unknown(o);
  unknown.observe({1000, 900, 0});  // as if it had shared the whole of it
  CHECK(unknown.solve()->depths == Positions{1000});
}

TEST_CASE("a plan is the programme's optimum over the decayed overlaps") {
  std::mt19937_64 rng(17);
  DpPlanner planner(options(3));
  std::vector<DemandPoint> demand;
  for (int i = 0; i < 60; ++i) {
    const auto overlap = static_cast<std::int32_t>(rng() % 500 + 1);
    for (DemandPoint& p : demand) p.weight *= 0.99;
    demand.push_back({overlap, 1});
    planner.observe({600, overlap, 0});
  }
  std::sort(demand.begin(), demand.end(),
            [](const DemandPoint& a, const DemandPoint& b) { return a.depth < b.depth; });
  const auto plan = planner.solve();
  const std::vector<std::int64_t> planned(plan->depths.begin(), plan->depths.end());
  CHECK(placement_cost(demand, planned) == Approx(place_checkpoints(demand, 3).cost));
}

TEST_CASE("the same observations give the same plan") {
  std::mt19937_64 rng(3);
  DpPlanner one(options());
  DpPlanner two(options());
  for (int i = 0; i < 700; ++i) {
    const auto length = static_cast<std::int32_t>(rng() % 30'000 + 1);
    const Observation o{length, static_cast<std::int32_t>(rng() % static_cast<unsigned>(length)),
                        0};
    one.observe(o);
    two.observe(o);
  }
  const auto a = one.solve();
  const auto b = two.solve();
  CHECK(a->depths.size() == 4);
  CHECK(a->depths == b->depths);
}

#ifdef CAIRN_FAILPOINTS_ENABLED
TEST_CASE("the failpoint planner.solve makes a solve throw and the next one is whole again") {
  DpPlanner planner(options());
  planner.observe({100, 50, 0});
  set_failpoints("planner.solve=fail*1");
  CHECK_THROWS_AS(planner.solve(), InvariantError);
  CHECK_FALSE(planner.solve()->depths.empty());
  set_failpoints("");
}
#endif

TEST_CASE("only dp policies need a planner") {
  CHECK(planner_options_for("dp:6+branch", 32'768).checkpoints == 6);
  CHECK(planner_options_for("dp:6+branch", 32'768).max_length == 32'768);
  CHECK(planner_options_for("dp:6+branch", 32'768).scale == DepthScale::tokens);
  CHECK(planner_options_for("dp_frac:3", 0).checkpoints == 3);
  CHECK(planner_options_for("dp_frac:3", 0).scale == DepthScale::parent_share);
  for (const char* other : {"none", "last", "branch", "balanced:4+branch", "marconi", "nonsense"}) {
    CHECK(planner_options_for(other, 0).checkpoints == 0);
  }
}
