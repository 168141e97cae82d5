// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "engine/placement/planner.hpp"
#include "engine/placement/policy.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

std::unique_ptr<Policy> policy(const char* spelling) { return make_policy(spelling).take(); }

PlacementQuery query(std::int32_t length, std::int32_t overlap = 0, std::int32_t resume = 0,
                     bool spare_room = false) {
  PlacementQuery q;
  q.length = length;
  q.overlap = overlap;
  q.resume = resume;
  q.spare_room = spare_room;
  return q;
}

std::map<std::int32_t, StateKind> placed(Policy& p, const PlacementQuery& q) {
  std::map<std::int32_t, StateKind> by_position;
  std::int32_t last = q.resume;
  for (const Placement& x : p.place(q)) {
    CHECK(x.position > last);
    CHECK(x.position < q.length);
    last = x.position;
    by_position[x.position] = x.kind;
  }
  return by_position;
}

using Places = std::map<std::int32_t, StateKind>;

}  // namespace

TEST_CASE("none keeps nothing") {
  const auto none = policy("none");
  CHECK(none->place(query(100, 50)).empty());
  CHECK_FALSE(none->keeps_anything());
  CHECK_FALSE(none->keeps_answer_end());
  CHECK(policy("last")->keeps_answer_end());
}

TEST_CASE("last keeps the state before the last token") {
  CHECK(placed(*policy("last"), query(100, 50)) == Places{{99, StateKind::prompt_end}});
  CHECK(placed(*policy("last"), query(100, 100, 99)).empty());
  CHECK(placed(*policy("last"), query(1)).empty());
}

TEST_CASE(
    "branch adds the overlap's end when it lies between the resume point and the last token") {
  const auto branch = policy("branch");
  CHECK(placed(*branch, query(100, 50, 20)) ==
        Places{{50, StateKind::branch}, {99, StateKind::prompt_end}});
  CHECK(placed(*branch, query(100, 50, 50)) == Places{{99, StateKind::prompt_end}});
  CHECK(placed(*branch, query(100, 99)) == Places{{99, StateKind::prompt_end}});
  CHECK(placed(*branch, query(100, 100)) == Places{{99, StateKind::prompt_end}});
}

TEST_CASE("balanced spaces this prompt evenly and keeps what lies beyond the resume point") {
  CHECK(placed(*policy("balanced:3"), query(240, 100, 70, true)) ==
        Places{{120, StateKind::planned}, {180, StateKind::planned}, {239, StateKind::prompt_end}});
  CHECK(placed(*policy("balanced:1+branch"), query(240, 100)) ==
        Places{{100, StateKind::branch}, {120, StateKind::planned}, {239, StateKind::prompt_end}});
}

TEST_CASE("before a plan dp spaces evenly, twice as densely while there is room") {
  const auto dp = policy("dp:4");
  CHECK(placed(*dp, query(1000)).size() == 5);
  CHECK(placed(*dp, query(1000, 0, 0, true)).size() == 9);
  CHECK(placed(*dp, query(1000, 0, 0, true)).count(1000 / 9) == 1);
}

TEST_CASE("dp takes the published rung of this length and the prior beyond the last one") {
  auto plan = std::make_shared<Plan>();
  plan->rungs = {{100, {40}, {40, 60}}, {200, {150}, {100, 150}}};
  plan->reach = 300;
  const auto dp = policy("dp:1");
  dp->adopt(plan);
  CHECK(placed(*dp, query(199)) == Places{{40, StateKind::planned}, {198, StateKind::prompt_end}});
  CHECK(placed(*dp, query(200, 0, 0, true)).count(100) == 1);
  CHECK(placed(*dp, query(299, 0, 150)) == Places{{298, StateKind::prompt_end}});
  CHECK(placed(*dp, query(400)).count(200) == 1);  // longer than the plan reaches
  CHECK(placed(*dp, query(80)).count(40) == 1);    // shorter than its first rung
}

TEST_CASE("dp keeps no planned state within a block of the one before it") {
  const auto dp = policy("dp:8");
  std::int32_t last = 0;
  const auto places = placed(*dp, query(100, 0, 0, true));
  CHECK(places.size() > 2);
  for (const auto& [position, kind] : places) {
    if (kind == StateKind::planned) CHECK(position - last >= 16);
    last = position;
  }
  CHECK(placed(*dp, query(15)) == Places{{14, StateKind::prompt_end}});
}

TEST_CASE("of the structure the system prompt's end and the last two turns are kept") {
  const StructuralPoint turns[] = {{0}, {30}, {60}, {90}, {120}, {150}};
  PlacementQuery q = query(160);
  q.structure = turns;
  for (const char* spelling : {"last", "branch"}) {
    CHECK(placed(*policy(spelling), q) == Places{{30, StateKind::turn},
                                                 {120, StateKind::turn},
                                                 {150, StateKind::turn},
                                                 {159, StateKind::prompt_end}});
  }
  CHECK(placed(*policy("dp:4+branch"), q).count(120) == 1);
  q.resume = 125;
  CHECK(placed(*policy("last"), q) == Places{{150, StateKind::turn}, {159, StateKind::prompt_end}});
}

TEST_CASE("the last four pinned points are kept and win over every other kind") {
  using K = StateKind;
  const StructuralPoint pins[] = {{10, K::pinned}, {20, K::pinned}, {30, K::pinned},
                                  {40, K::pinned}, {50, K::turn},   {50, K::pinned}};
  PlacementQuery q = query(100, 40);
  q.structure = pins;
  CHECK(
      placed(*policy("branch"), q) ==
      Places{
          {20, K::pinned}, {30, K::pinned}, {40, K::pinned}, {50, K::pinned}, {99, K::prompt_end}});
}

TEST_CASE("states on one position merge to the surer kind") {
  const StructuralPoint turns[] = {{50}, {99}};
  PlacementQuery q = query(100, 50);
  q.structure = turns;
  CHECK(placed(*policy("balanced:1+branch"), q) ==
        Places{{50, StateKind::branch}, {99, StateKind::prompt_end}});
}

TEST_CASE("spellings are read back and everything else is refused with the list") {
  for (const char* good : {"none", "last", "branch", "balanced:1", "balanced:8+branch", "dp:4",
                           "dp:4+branch", "dp:256"}) {
    const auto made = make_policy(good);
    REQUIRE(made.ok());
    CHECK((*made)->name() == good);
  }
  for (const char* bad : {"", "dp", "dp:", "dp:0", "dp:-1", "dp:257", "dp:4x", "dp:4+last", "dp: 4",
                          "dp:4+branch+branch", "balanced", "last+branch", "DP:4", "lru",
                          "dp:99999999999999999999", "none+branch"}) {
    const auto made = make_policy(bad);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::bad_request);
    CHECK(made.error().message.find("'" + std::string(bad) + "'") != std::string::npos);
    CHECK(made.error().message.find("dp:M+branch") != std::string::npos);
  }
}

TEST_CASE("by default the least recently used state is worth least") {
  const auto dp = policy("dp:4+branch");
  CHECK(dp->value({.last_used = 3}) < dp->value({.position = 9, .last_used = 4, .bytes = 1}));
}

// The default policy on documents that are asked about several times.
TEST_CASE("a first fork at 60 % of a document finds a state at three quarters of it or more") {
  for (const std::int32_t n : {300, 1000, 4096, 10'007, 100'000}) {
    const auto dp = policy("dp:4+branch");
    DpPlanner planner(planner_options_for("dp:4+branch", 262'144));
    for (int seen = 0; seen < 3; ++seen) {  // without a plan, and with ones from the prior
      const auto states = placed(*dp, query(n, 0, 0, true));
      const std::int32_t overlap = n * 6 / 10;
      const auto above = states.upper_bound(overlap);
      REQUIRE(above != states.begin());
      CHECK(std::prev(above)->first >= overlap * 3 / 4);
      const auto second = placed(*dp, query(n, overlap, std::prev(above)->first, true));
      CHECK(second.count(overlap) == 1);  // the second sighting loses nothing
      CHECK(second.count(n - 1) == 1);    // nor an exact repeat more than its last token
      planner.observe({n, 0, 0});
      dp->adopt(planner.solve());
    }
  }
}
