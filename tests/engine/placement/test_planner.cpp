// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/planner.hpp"

#include <algorithm>
#include <random>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

PlannerOptions options(int checkpoints = 4) {
  PlannerOptions o;
  o.checkpoints = checkpoints;
  return o;
}

bool holds(const std::vector<std::int32_t>& positions, std::int32_t p) {
  return std::find(positions.begin(), positions.end(), p) != positions.end();
}

}  // namespace

TEST_CASE("a planner that has seen nothing publishes a plan without rungs") {
  DpPlanner planner(options());
  const auto plan = planner.solve();
  REQUIRE(plan);
  CHECK(plan->rungs.empty());
  CHECK(rung_for(*plan, 100) == nullptr);
  CHECK(plan->expected_recompute_tokens == 0);
}

TEST_CASE("rungs grow by about an eighth of an octave up to the longest prompt") {
  DpPlanner planner(options());
  planner.observe({5000, 0, 0});
  const auto plan = planner.solve();
  REQUIRE(plan->rungs.size() > 8);
  CHECK(plan->rungs.back().length <= 5000);
  CHECK(plan->reach > 5000);
  for (std::size_t i = 1; i < plan->rungs.size(); ++i) {
    const double ratio = 1.0 * plan->rungs[i].length / plan->rungs[i - 1].length;
    CHECK(ratio > 1);
    CHECK(ratio < 1.13);
  }
  for (const auto& rung : plan->rungs) {
    CHECK(rung_for(*plan, rung.length) == &rung);
    CHECK(rung.positions.size() <= 4);
    CHECK(rung.spare_positions.size() <= 8);
    CHECK(std::is_sorted(rung.spare_positions.begin(), rung.spare_positions.end()));
    for (const auto p : rung.spare_positions) CHECK((p > 0 && p <= rung.length));
  }
  CHECK(rung_for(*plan, 15) == nullptr);
  CHECK(rung_for(*plan, plan->reach - 1) == &plan->rungs.back());
  CHECK(rung_for(*plan, plan->reach) == nullptr);
}

TEST_CASE("without overlaps the plan is as even as the prior's atoms allow") {
  DpPlanner planner(options(8));
  planner.observe({90'000, 0, 0});
  const auto plan = planner.solve();
  for (const auto& rung : plan->rungs) {
    if (rung.length < 200) continue;
    std::int32_t above = 0;
    for (const auto p : rung.spare_positions) {
      CHECK(p - above <= rung.length / 17 + rung.length / 64 + 1);
      above = p;
    }
    CHECK(rung.length - above <= rung.length / 17 + rung.length / 64 + 1);
  }
}

TEST_CASE("a depth where overlaps keep ending gets a state exactly there") {
  DpPlanner planner(options());
  for (int i = 0; i < 30; ++i) planner.observe({4000 + i, 1733, 0});
  const auto plan = planner.solve();
  CHECK(holds(rung_for(*plan, 4010)->positions, 1733));
  CHECK(holds(rung_for(*plan, 2100)->positions, 1733));
  CHECK(plan->expected_recompute_tokens == 0);
}

TEST_CASE("old depths fade") {
  DpPlanner planner(options(1));
  for (int i = 0; i < 100; ++i) planner.observe({4000, 1000, 0});
  CHECK(holds(rung_for(*planner.solve(), 4000)->positions, 1000));
  for (int i = 0; i < 300; ++i) planner.observe({4000, 3000, 0});
  CHECK(holds(rung_for(*planner.solve(), 4000)->positions, 3000));
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

TEST_CASE("lengths beyond the limit do not grow the ladder") {
  PlannerOptions o = options();
  o.max_length = 1000;
  DpPlanner planner(o);
  planner.observe({2'000'000'000, 1'999'999'999, 0});
  const auto plan = planner.solve();
  CHECK(plan->rungs.back().length <= 1000);
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
  REQUIRE(a->rungs.size() == b->rungs.size());
  for (std::size_t i = 0; i < a->rungs.size(); ++i) {
    CHECK(a->rungs[i].positions == b->rungs[i].positions);
    CHECK(a->rungs[i].spare_positions == b->rungs[i].spare_positions);
  }
}

#ifdef CAIRN_FAILPOINTS_ENABLED
TEST_CASE("the failpoint planner.solve makes a solve throw and the next one is whole again") {
  DpPlanner planner(options());
  planner.observe({100, 50, 0});
  set_failpoints("planner.solve=fail*1");
  CHECK_THROWS_AS(planner.solve(), InvariantError);
  CHECK_FALSE(planner.solve()->rungs.empty());
  set_failpoints("");
}
#endif

TEST_CASE("only dp policies need a planner") {
  CHECK(planner_options_for("dp:6+branch", 32'768).checkpoints == 6);
  CHECK(planner_options_for("dp:6+branch", 32'768).max_length == 32'768);
  for (const char* other : {"none", "last", "branch", "balanced:4+branch", "nonsense"}) {
    CHECK(planner_options_for(other, 0).checkpoints == 0);
  }
}
