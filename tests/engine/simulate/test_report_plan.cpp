// SPDX-License-Identifier: Apache-2.0
// What is shown of a plan, and what is folded.
#include "engine/simulate/report_plan.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"
#include "tests/support/markup.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

// A system prompt of 100 tokens that two chats leave; one goes on through a turn at 180, where a
// point without a state follows.
PlanSnapshot some_plan() {
  PlanSnapshot s;
  s.policy = "forest";
  s.bytes = 3u << 20;
  s.budget = 4u << 20;
  s.price = 2e-9;
  s.nodes = {
      {-1, 40, Claim::none, StateKind::planned, 0.5, 0, 0},                   // 0: a chain
      {0, 100, Claim::none, StateKind::planned, 0.25, 0, 0},                  // 1: the fork
      {1, 180, Claim::stored, StateKind::turn, 0.125, 6e-9, 1u << 20},        // 2
      {2, 240, Claim::stored, StateKind::prompt_end, 0.0625, 2e-9, 1 << 20},  // 3
      {3, 260, Claim::none, StateKind::planned, 0.03125, 0, 0},               // 4
      {1, 150, Claim::pending, StateKind::branch, 1, 4e-9, 1u << 20},         // 5
      {0, 90, Claim::none, StateKind::planned, 2, 0, 0},  // 6: a way without states
  };
  return s;
}

}  // namespace

TEST_CASE("A plan's text shows states and forks, folds the rest and serves each rate once") {
  CHECK(plan_text(some_plan()) ==
        "policy forest: 3 states, 3.00 MiB of 4.00 MiB, price 2e-09 a byte\n"
        "the empty prefix: rate 2.75 served by no state, folded nodes: 2\n"
        "> 100 tokens: fork\n"
        "  + 150 tokens: branch (pending), rate 1, 1.00 MiB, value 4e-09 a byte (2 x price)\n"
        "  + 180 tokens: turn, rate 0.125, 1.00 MiB, value 6e-09 a byte (3 x price)\n"
        "  > 240 tokens: prompt_end, rate 0.0938, 1.00 MiB, value 2e-09 a byte (1 x price), "
        "folded nodes: 1\n");
}

TEST_CASE("A plan's drawing is well-formed and has a mark a state and fork, a label a leaf") {
  const std::string svg = plan_svg(some_plan());
  CHECK(testing::markup_problem(svg) == "");
  std::size_t marks = 0, edges = 0;
  for (std::size_t at = 0; (at = svg.find("</title></circle>", at)) != std::string::npos; ++at) {
    ++marks;
  }
  for (std::size_t at = 0; (at = svg.find("<path", at)) != std::string::npos; ++at) ++edges;
  CHECK(marks == 5);  // three states, the fork, the empty prefix
  CHECK(edges == 4);
  CHECK_THAT(svg, Catch::Contains(">150 branch, rate 1, 1.00 MiB</text>"));
  CHECK_THAT(svg, Catch::Contains(">240 prompt_end, rate 0.0938, 1.00 MiB</text>"));
  CHECK(svg.find(">180 turn") == std::string::npos);
}

TEST_CASE("An empty plan and one of 200,000 states in a chain are shown") {
  PlanSnapshot s;
  s.policy = "none";
  CHECK(plan_text(s) ==
        "policy none: 0 states, 0 B, price 0 a byte\n"
        "the empty prefix: rate 0 served by no state\n");
  CHECK(testing::markup_problem(plan_svg(s)) == "");
  for (std::int32_t i = 0; i < 200'000; ++i) {
    s.nodes.push_back({i - 1, i + 1, Claim::stored, StateKind::turn, 0, 0, 1});
  }
  const std::string text = plan_text(s);
  CHECK(std::count(text.begin(), text.end(), '\n') == 200'002);
  CHECK(text.find("  ") == std::string::npos);
}
