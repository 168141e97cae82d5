// SPDX-License-Identifier: Apache-2.0
// Each comparison policy against its definition: where it wants states and what it gives up first.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/placement/planner.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/placement/shape_cache.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

std::unique_ptr<CachePolicy> policy(const std::string& spelling) {
  return make_cache_policy(spelling).take();
}

RequestView request(std::int32_t length, std::int32_t overlap = 0, std::int32_t resume = 0) {
  RequestView view;
  view.tick = 1;
  view.length = length;
  view.overlap = overlap;
  view.resume = resume;
  return view;
}

using Places = std::map<std::int32_t, StateKind>;

Places placed(CachePolicy& rule, const RequestView& view) {
  Places by_position;
  std::int32_t last = view.resume;
  for (const Placement& p : rule.place(view)) {
    CHECK(p.position > last);
    CHECK(p.position < view.length);
    last = p.position;
    by_position[p.position] = p.kind;
  }
  return by_position;
}

Places placed(const std::string& spelling, const RequestView& view) {
  return placed(*policy(spelling), view);
}

// The positions before the end n - 1, which is checked to be there.
std::vector<std::int32_t> before_end(const std::string& spelling, std::int32_t length) {
  std::vector<std::int32_t> out;
  Places places = placed(spelling, request(length));
  CHECK(places.count(length - 1) == 1);
  places.erase(length - 1);
  for (const auto& [position, kind] : places) {
    CHECK(kind == StateKind::planned);
    out.push_back(position);
  }
  return out;
}

using Positions = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("none and kv_only keep no state") {
  for (const char* spelling : {"none", "kv_only"}) {
    const auto rule = policy(spelling);
    CHECK(rule->place(request(100, 50)).empty());
    CHECK_FALSE(rule->keeps_anything());
    CHECK_FALSE(rule->keeps_answer_end());
  }
  CHECK(policy("last")->keeps_answer_end());
}

TEST_CASE("last keeps the state before the last token") {
  CHECK(placed("last", request(100, 50)) == Places{{99, StateKind::prompt_end}});
  CHECK(placed("last", request(100, 100, 99)).empty());
  CHECK(placed("last", request(1)).empty());
}

TEST_CASE("branch adds the overlap's end between the resume point and the last token") {
  for (const char* spelling : {"branch", "branch_path", "marconi:1", "marconi"}) {
    CHECK(placed(spelling, request(100, 50, 20)) ==
          Places{{50, StateKind::branch}, {99, StateKind::prompt_end}});
    CHECK(placed(spelling, request(100, 50, 50)) == Places{{99, StateKind::prompt_end}});
    CHECK(placed(spelling, request(100, 99)) == Places{{99, StateKind::prompt_end}});
    CHECK(placed(spelling, request(100, 100)) == Places{{99, StateKind::prompt_end}});
  }
}

TEST_CASE("spacings stand where their formulas say") {
  for (const std::int32_t n : {7, 100, 1000, 4096, 100'003}) {
    CAPTURE(n);
    Positions balanced, log, log_end, root, root_end;
    for (int i = 1; i <= 4; ++i) {
      balanced.push_back(static_cast<std::int32_t>(std::int64_t{i} * n / 5));
      log.insert(log.begin(), n >> i);
      log_end.push_back(n - static_cast<std::int32_t>(std::ceil(n / std::pow(2.0, i))));
      root.push_back(static_cast<std::int32_t>(std::floor(n * i * i / 16.0)));
      root_end.push_back(n - static_cast<std::int32_t>(std::ceil(n * (4 - i) * (4 - i) / 16.0)));
    }
    // Positions at 0, at the end and doubled ones fall away.
    const auto cleaned = [n](Positions p) {
      std::erase_if(p, [n](std::int32_t x) { return x <= 0 || x >= n - 1; });
      p.erase(std::unique(p.begin(), p.end()), p.end());
      return p;
    };
    CHECK(before_end("balanced:4", n) == cleaned(balanced));
    CHECK(before_end("log:4", n) == cleaned(log));
    CHECK(before_end("log_end:4", n) == cleaned(log_end));
    CHECK(before_end("sqrt:4", n) == cleaned(root));
    CHECK(before_end("sqrt_end:4", n) == cleaned(root_end));
  }
  CHECK(before_end("balanced:3", 240) == Positions{60, 120, 180});
  CHECK(before_end("log:3", 240) == Positions{30, 60, 120});
  CHECK(before_end("log_end:3", 240) == Positions{120, 180, 210});
  CHECK(before_end("sqrt:4", 160) == Positions{10, 40, 90});
  CHECK(before_end("sqrt_end:4", 160) == Positions{70, 120, 150});
}

TEST_CASE("block keeps the multiples, sqrt_spacing those of the root of the length") {
  CHECK(before_end("block:64", 200) == Positions{64, 128, 192});
  CHECK(before_end("block:64", 65).empty());
  CHECK(before_end("sqrt_spacing", 30) == Positions{5, 10, 15, 20, 25});
  CHECK(before_end("sqrt_spacing", 10'000).size() == 99);
  CHECK(before_end("sqrt_spacing", 2).empty());
}

TEST_CASE("what lies before the resume point is not placed again") {
  CHECK(placed("balanced:3", request(240, 100, 70)) ==
        Places{{120, StateKind::planned}, {180, StateKind::planned}, {239, StateKind::prompt_end}});
}

TEST_CASE("+branch adds the branch to any placement") {
  for (const char* spelling : {"balanced:1+branch", "block:120+branch"}) {
    CHECK(placed(spelling, request(240, 100)) == Places{{100, StateKind::branch},
                                                        {120, StateKind::planned},
                                                        {239, StateKind::prompt_end}});
  }
  for (const char* rule :
       {"log:2", "log_end:2", "sqrt:2", "sqrt_end:2", "sqrt_spacing", "dp:2", "dp_frac:2"}) {
    CHECK(placed(rule, request(240, 101)).count(101) == 0);
    CHECK(placed(std::string(rule) + "+branch", request(240, 101)).at(101) == StateKind::branch);
  }
}

TEST_CASE("dp places nothing of its own before a plan and the plan's positions after") {
  const auto dp = policy("dp:2");
  CHECK(placed(*dp, request(1000)) == Places{{999, StateKind::prompt_end}});
  auto plan = std::make_shared<Plan>();
  plan->depths = {40, 150};
  dp->adopt(plan);
  CHECK(placed(*dp, request(1000)) ==
        Places{{40, StateKind::planned}, {150, StateKind::planned}, {999, StateKind::prompt_end}});
  CHECK(placed(*dp, request(100)).count(40) == 1);
  CHECK(placed(*dp, request(1000, 90, 40)).count(40) == 0);
}

TEST_CASE("dp_frac learns shares of the first prompt that went where the overlap ends") {
  const auto frac = policy("dp_frac:1");
  ShapeCache cache(*frac, {.state_bytes = 1, .kv_bytes_per_token = 0}, 1000);
  const PlanNode first = cache.request(kPlanRoot, 0, 200).end;
  CHECK(cache.request(first, 150, 900).seen.parent_length == 200);
  CHECK(cache.request(first, 100, 500).seen.parent_length == 200);
  const auto longer = cache.request(first, 200, 700);
  CHECK(longer.seen.parent_length == 200);
  CHECK(cache.request(longer.end, 300, 400).seen.parent_length == 700);
  CHECK(cache.request(kPlanRoot, 0, 80).seen.parent_length == 0);
}

TEST_CASE("of the structure the system prompt's end and the last two turns are kept") {
  const StructuralPoint turns[] = {{0}, {30}, {60}, {90}, {120}, {150}};
  RequestView view = request(160);
  view.structure = turns;
  for (const char* spelling : {"last", "branch", "branch_path", "marconi:1", "dp:4+branch"}) {
    CHECK(placed(spelling, view) == Places{{30, StateKind::turn},
                                           {120, StateKind::turn},
                                           {150, StateKind::turn},
                                           {159, StateKind::prompt_end}});
  }
  view.resume = 125;
  CHECK(placed("last", view) == Places{{150, StateKind::turn}, {159, StateKind::prompt_end}});
}

TEST_CASE("the last four pinned points are kept and win over every other kind") {
  using K = StateKind;
  const StructuralPoint pins[] = {{10, K::pinned}, {20, K::pinned}, {30, K::pinned},
                                  {40, K::pinned}, {50, K::turn},   {50, K::pinned}};
  RequestView view = request(100, 40);
  view.structure = pins;
  CHECK(
      placed("branch", view) ==
      Places{
          {20, K::pinned}, {30, K::pinned}, {40, K::pinned}, {50, K::pinned}, {99, K::prompt_end}});
}

TEST_CASE("states on one position merge to the surer kind") {
  const StructuralPoint turns[] = {{50}, {99}};
  RequestView view = request(100, 50);
  view.structure = turns;
  CHECK(placed("balanced:1+branch", view) ==
        Places{{50, StateKind::branch}, {99, StateKind::prompt_end}});
}

TEST_CASE("spellings are read back and everything else is refused with the list") {
  for (const char* good : {"none",
                           "kv_only",
                           "last",
                           "branch",
                           "branch_path",
                           "balanced:1",
                           "balanced:8+branch",
                           "block:512",
                           "block:1+branch",
                           "log:3",
                           "log_end:3+branch",
                           "sqrt:256",
                           "sqrt_end:2",
                           "sqrt_spacing",
                           "sqrt_spacing+branch",
                           "marconi",
                           "marconi:0",
                           "marconi:0.25",
                           "marconi:1e1",
                           "dp:4",
                           "dp:4+branch",
                           "dp:256",
                           "dp_frac:4",
                           "dp_frac:4+branch",
                           "forest"}) {
    const auto made = make_cache_policy(good);
    REQUIRE(made.ok());
    CHECK((*made)->name() == good);
  }
  for (const char* bad : {"",
                          "dp",
                          "dp:",
                          "dp:0",
                          "dp:-1",
                          "dp:257",
                          "dp:4x",
                          "dp:4+last",
                          "dp: 4",
                          "block:0",
                          "block:1000001",
                          "dp:4+branch+branch",
                          "balanced",
                          "last+branch",
                          "DP:4",
                          "lru",
                          "last:1",
                          "dp:99999999999999999999",
                          "none+branch",
                          "marconi:",
                          "marconi:-1",
                          "marconi:nan",
                          "marconi:inf",
                          "marconi:1+branch",
                          "sqrt_spacing:4",
                          "+branch",
                          ":4"}) {
    const auto made = make_cache_policy(bad);
    REQUIRE_FALSE(made.ok());
    CHECK_FALSE(parse_policy_name(bad).ok());
    CHECK(made.error().code == ErrorCode::bad_request);
    CHECK(made.error().message.find("'" + std::string(bad) + "'") != std::string::npos);
    for (const char* listed : {"kv_only", "balanced:M", "block:B", "sqrt_spacing", "marconi:ALPHA",
                               "dp_frac:M+branch", "forest"}) {
      CHECK(made.error().message.find(listed) != std::string::npos);
    }
  }
}
