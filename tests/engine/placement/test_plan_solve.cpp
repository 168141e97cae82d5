// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_solve.hpp"

#include "base/json.hpp"
#include "engine/placement/spacings.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

json::Value solved(const std::string& text) {
  const auto answer = solve_plan_json(text);
  if (!answer.ok()) FAIL(answer.error().message);
  return json::parse(answer.value()).take();
}

std::vector<std::int64_t> positions(const json::Value& v) {
  std::vector<std::int64_t> out;
  for (const auto& p : v.find("positions")->items()) out.push_back(p.as_int());
  return out;
}

double expected(const json::Value& v) { return v.find("expected_recompute")->as_double(); }

std::string uniform(int n, int budget) {
  std::string text = R"({"grain":1,"cost":{"a":1,"b":0},"demand":[)";
  for (int t = 1; t <= n; ++t) text += (t > 1 ? ",[" : "[") + std::to_string(t) + ",0.5]";
  return text + "],\"budget\":" + std::to_string(budget) + "}";
}

using Places = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a solved plan holds positions, expected recompute and every baseline") {
  const json::Value answer = solved(uniform(240, 3));
  CHECK(positions(answer).size() == 3);
  CHECK(expected(answer) == Approx(29.75));
  REQUIRE(answer.members().size() == 3);
  const json::Value& baselines = *answer.find("baselines");
  REQUIRE(baselines.members().size() == kSpacings.size());
  for (const auto& [name, baseline] : baselines.members()) {
    INFO(name);
    CHECK(positions(baseline).size() <= 3);
    CHECK(expected(baseline) >= expected(answer) - 1e-9);
  }
  CHECK(positions(*baselines.find("balanced")) == Places{60, 120, 180});
  CHECK(expected(*baselines.find("balanced")) == Approx(29.75));
  CHECK(expected(*baselines.find("none")) == Approx(120.5));
  CHECK(positions(*baselines.find("last")) == Places{240});
  CHECK(positions(*baselines.find("block")) == Places{61, 122, 183});
  CHECK(positions(*baselines.find("log")) == Places{30, 60, 120});
  CHECK(positions(*baselines.find("log_end")) == Places{120, 180, 210});
  CHECK(positions(*baselines.find("sqrt")) == Places{26, 106, 240});
  CHECK(positions(*baselines.find("sqrt_end")) == Places{133, 213, 240});
}

TEST_CASE("weights are normalised, grain and cost have defaults") {
  const json::Value answer = solved(R"({"demand":[[100,2],[50,6]],"budget":0})");
  CHECK(expected(answer) == Approx(62.5));
  CHECK(positions(answer).empty());
  const json::Value coarse = solved(R"({"demand":[[100,1]],"budget":2,"grain":64})");
  CHECK(positions(coarse) == Places{64});
  CHECK(expected(coarse) == Approx(36));
  const json::Value square = solved(R"({"demand":[[10,1]],"budget":0,"cost":{"a":0,"b":2}})");
  CHECK(expected(square) == Approx(90));
}

TEST_CASE("a bad plan file is refused with the field and what was expected") {
  const struct {
    const char* text;
    const char* param;
    const char* message;
  } cases[] = {
      {"{", "", "JSON"},
      {"[1]", "", "an object"},
      {R"({"budget":1})", "demand", "missing"},
      {R"({"demand":[[1,1]]})", "budget", "missing"},
      {R"({"demand":[[1,1]],"budget":1,"bugdet":2})", "bugdet", "only the keys"},
      {R"({"demand":[[1,1]],"budget":-1})", "budget", "from 0 to 1000000, got -1"},
      {R"({"demand":[[1,1]],"budget":1000001})", "budget", "got 1000001"},
      {R"({"demand":[[1,1]],"budget":1.5})", "budget", "integer"},
      {R"({"demand":[[1,1]],"budget":"4"})", "budget", "got a string"},
      {R"({"demand":[[1,1]],"budget":1,"grain":0})", "grain", "from 1"},
      {R"({"demand":[[1,1]],"budget":1,"grain":2.0})", "grain", "integer"},
      {R"({"demand":[[1,1]],"budget":1,"cost":3})", "cost", "an object"},
      {R"({"demand":[[1,1]],"budget":1,"cost":{"c":3}})", "cost.c", "only the keys a, b"},
      {R"({"demand":[[1,1]],"budget":1,"cost":{"a":-3}})", "cost.a", "at least 0"},
      {R"({"demand":[[1,1]],"budget":1,"cost":{"a":0}})", "cost", "above 0"},
      {R"({"demand":[[1,1]],"budget":1,"cost":{"b":1e999}})", "cost.b", "finite"},
      {R"({"demand":{},"budget":1})", "demand", "an array"},
      {R"({"demand":[],"budget":1})", "demand", "above 0"},
      {R"({"demand":[[1,0]],"budget":1})", "demand", "above 0"},
      {R"({"demand":[[1,1],[2]],"budget":1})", "demand[1]", "a pair"},
      {R"({"demand":[[0,1]],"budget":1})", "demand[0][0] (depth)", "from 1"},
      {R"({"demand":[[1.5,1]],"budget":1})", "demand[0][0] (depth)", "integer"},
      {R"({"demand":[[99999999999999999999,1]],"budget":1})", "demand[0][0] (depth)", "from 1"},
      {R"({"demand":[[1,-1]],"budget":1})", "demand[0][1] (weight)", "at least 0"},
      {R"({"demand":[[1,null]],"budget":1})", "demand[0][1] (weight)", "got null"},
      {R"({"demand":[[1,1e308],[2,1e308]],"budget":1})", "demand", "finite"},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    const auto answer = solve_plan_json(c.text);
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::bad_request);
    CHECK(answer.error().param == c.param);
    CHECK(answer.error().message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("the largest depths and budgets do not overflow") {
  const json::Value answer =
      solved(R"({"demand":[[1000000000000,1],[999999999999,1]],"budget":1000000})");
  CHECK(expected(answer) == 0);
  CHECK(positions(*answer.find("baselines")->find("balanced")).back() < 1'000'000'000'000);
}

TEST_CASE("spacings stay in range, ascending and on the grain for every length and count") {
  for (const Spacing spacing : kSpacings) {
    for (const std::int64_t n : {1, 2, 3, 17, 64, 1000}) {
      for (const std::int64_t m : {0, 1, 2, 5, 70}) {
        for (const std::int64_t grain : {1, 16}) {
          const auto found = spaced_positions(spacing, n, m, grain);
          CHECK(static_cast<std::int64_t>(found.size()) <= m);
          std::int64_t last = 0;
          for (const auto p : found) {
            CHECK((p > last && p <= n && p % grain == 0));
            last = p;
          }
        }
      }
    }
  }
}
