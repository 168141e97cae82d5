// SPDX-License-Identifier: Apache-2.0
// The comparison of one workload from end to end, on line through the simulator.
#include <algorithm>

#include "bench/paper/tables.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/markup.hpp"

using namespace cairn::paper;

namespace {

Workload few_shot() {
  Workload all = from_trace("few <shot>", CAIRN_SOURCE_DIR "/bench/traces/xquad_en_live20.csv.gz");
  all.requests.resize(300);
  return all;
}

}  // namespace

TEST_CASE("A comparison has every rule at every budget, in sample, held out and on line") {
  const Comparison c = compare(few_shot());
  CHECK(c.requests == 300);
  CHECK(c.samples > 250);
  CHECK(c.scale == Scale::fraction);  // a paragraph, then a question
  REQUIRE(c.in_sample.size() == kRules.size());
  REQUIRE(c.held_out.size() == kRules.size());
  for (const auto& row : c.in_sample) CHECK(row.size() == kBudgets.size());
  CHECK(c.other_held_out.size() == kBudgets.size());
  CHECK(c.forest.size() == kBudgets.size());
  CHECK(c.reached_in_sample >= 1);
  CHECK(c.reached_in_sample <= 20);
  const auto row = [&](const std::string& name) {
    const auto at = std::find_if(c.online.begin(), c.online.end(),
                                 [&](const OnlineRow& r) { return r.policy == name; });
    REQUIRE(at != c.online.end());
    REQUIRE(at->shares.size() == kBudgets.size());
    return at->shares;
  };
  CHECK(row("none").front() == Approx(1));
  CHECK(row("kv_only").back() == Approx(1));
  for (const char* name : {"balanced:M", "block, M a prompt", "dp:M", "forest"}) {
    CHECK(row(name).back() < row(name).front());  // more states, less recomputed
  }
}

TEST_CASE("A comparison is written as tables and a drawing that is well-formed") {
  const Comparison c = compare(few_shot());
  const std::string text = to_markdown(c);
  CHECK_THAT(text, Catch::StartsWith("### few <shot>\n\n300 requests"));
  CHECK(std::count(text.begin(), text.end(), '\n') ==
        static_cast<std::ptrdiff_t>(4 + 2 * (kRules.size() + 4) + 2 + 2 + c.online.size() + 1));
  for (const char* start : {"| in sample, states | 1 |", "| held out, states | 1 |",
                            "| on line, states a live group | 1 |", "| none | 100.00 |",
                            "| sqrt_spacing | ", "| dp by tokens | ", "| forest (exact, "}) {
    CHECK_THAT(text, Catch::Contains(start));
  }
  const std::string svg = to_svg(c);
  CHECK(cairn::testing::markup_problem(svg) == "");
  CHECK_THAT(svg, Catch::Contains("few &lt;shot&gt;") && Catch::Contains(">dp, held out</text>"));
}
