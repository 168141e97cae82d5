// SPDX-License-Identifier: Apache-2.0
// What reports say of given results, and that what they draw is well-formed.
#include "base/json.hpp"
#include "engine/simulate/report.hpp"
#include "engine/simulate/report_chart.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/markup.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

SimulatorResult result(const std::string& policy, std::uint64_t bytes, std::int64_t recomputed,
                       std::int64_t written) {
  SimulatorResult r;
  r.policy = policy;
  r.bytes = bytes;
  r.requests = 100;
  r.prompt_tokens = 5000;
  r.reusable_tokens = 4000;
  r.recomputed_tokens = recomputed;
  r.recomputed_cost = static_cast<double>(recomputed);
  r.states_written = written;
  r.states_dropped = written / 2;
  r.solve_ms_total = 12.5;
  r.held = {{0, 0}, {50, bytes / 2}, {99, bytes}};
  return r;
}

constexpr std::uint64_t kSmall = 250'000'000, kLarge = 4'000'000'000;

std::vector<SimulatorResult> some_results() {
  return {result("last", kLarge, 1000, 90),   result("last", kSmall, 3000, 90),
          result("forest", kLarge, 400, 120), result("forest", kSmall, 3000, 80),
          result("oracle", kLarge, 10, 100),  result("a<b&\"c\">", kLarge, 2000, 5)};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("A result's JSON has every documented field, its gap null without a certificate") {
  SimulatorResult r = result("dp:4", kLarge, 1000, 90);
  auto json = json::parse(result_json(r)).take();
  CHECK(json.find("policy")->text() == "dp:4");
  CHECK(json.find("bytes")->as_int() == 4'000'000'000);
  CHECK(json.find("requests")->as_int() == 100);
  CHECK(json.find("prompt_tokens")->as_int() == 5000);
  CHECK(json.find("reusable_tokens")->as_int() == 4000);
  CHECK(json.find("recomputed_tokens")->as_int() == 1000);
  CHECK(json.find("recomputed_share")->as_double() == 0.25);
  CHECK(json.find("states_written")->as_int() == 90);
  CHECK(json.find("states_dropped")->as_int() == 45);
  CHECK(json.find("solve_ms_total")->as_double() == 12.5);
  CHECK(json.find("gap")->is(json::Kind::null));
  r.gap = 0.5;
  json = json::parse(result_json(r)).take();
  CHECK(json.find("gap")->as_double() == 0.5);
  CHECK(result_json(r).find('\n') == std::string::npos);
}

TEST_CASE("A trace without anything reusable recomputes no share of it") {
  SimulatorResult r = result("none", 1, 0, 0);
  r.reusable_tokens = 0;
  CHECK(r.recomputed_share() == 0);
}

TEST_CASE("The strongest policy recomputes least, of equals writes least, and is no oracle") {
  const auto results = some_results();
  REQUIRE(strongest(results, kLarge));
  CHECK(strongest(results, kLarge)->policy == "forest");
  CHECK(strongest(results, kSmall)->policy == "forest");  // 80 states against 90
  CHECK(strongest(results, 1) == nullptr);
}

TEST_CASE("Budgets are labelled as somebody would write them") {
  CHECK(budget_label(250'000'000) == "250 MB");
  CHECK(budget_label(1'500'000'000) == "1.5 GB");
  CHECK(budget_label(16'250'000'000) == "16.25 GB");
  CHECK(budget_label(4ull << 30) == "4 GiB");
  CHECK(budget_label(3ull << 19) == "1.5 MiB");
  CHECK(budget_label(4'000'000'001) == "3.73 GiB");
  CHECK(budget_label(7) == "7 B");
}

TEST_CASE("The table has a row a policy, a pair of numbers a budget and a verdict a budget") {
  const std::string table = result_table(some_results());
  CHECK_THAT(table, Catch::Contains("250 MB") && Catch::Contains("4 GB"));
  CHECK_THAT(table, Catch::Contains("forest        75.00     0.80    10.00     1.20\n"));
  CHECK_THAT(table, Catch::Contains("oracle            -        -     0.25     1.00\n"));
  CHECK_THAT(table, Catch::Contains("strongest at 250 MB: forest (75.00 %)\n"));
  CHECK_THAT(table, Catch::Contains("strongest at 4 GB: forest (10.00 %)\n"));
  CHECK(result_table({}).empty());
}

TEST_CASE("The HTML report is well-formed, needs nothing from elsewhere and draws every policy") {
  const auto results = some_results();
  const std::string page = result_html(
      results, {.trace = "x<y>.csv", .state_bytes = 20'201'472, .kv_bytes_per_token = 12'288});
  const std::string markup = page.substr(page.find('\n'));
  CHECK(testing::markup_problem(markup) == "");
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("x<y>") == std::string::npos);
  CHECK(page.find("a<b") == std::string::npos);
  for (const char* from : {"<script", "<link", "<img", "url(", "href"}) {
    CHECK(page.find(from) == std::string::npos);
  }
  // Shares, states, solve time; bytes held within each of two budgets.
  CHECK(count(page, "<svg") == 5);
  CHECK(count(page, "Pareto front") == 1);
  CHECK(count(page, "a&lt;b&amp;&quot;c&quot;&gt;</text>") == 4);
  CHECK(count(page, "<td class=\"best\">75.00</td>") == 1);
  CHECK(count(page, "<td class=\"best\">10.00</td>") == 1);
  CHECK(count(page, "prefers-color-scheme") >= 1);
}

TEST_CASE("The Pareto front does not rise where more bytes did worse") {
  const std::vector<SimulatorResult> results = {result("last", kSmall, 1000, 90),
                                                result("last", kLarge, 2000, 90)};
  const std::string page = result_html(results, {});
  // 25 % of a scale to 50 %: half-way of 280 pixels from 44 on, at both ends.
  CHECK_THAT(page, Catch::Contains("points=\"70.0,184.0 630.0,184.0 \""));
}

TEST_CASE("A report of nothing, of one cell and of nothing recomputed is still a page") {
  CHECK(testing::markup_problem(result_html({}, {}).substr(16)) == "");
  for (const std::int64_t recomputed : {0, 7}) {
    const std::vector<SimulatorResult> one = {result("last", kLarge, recomputed, 0)};
    const std::string page = result_html(one, {});
    CHECK(testing::markup_problem(page.substr(16)) == "");
    CHECK(page.find("nan") == std::string::npos);
    CHECK(page.find("inf") == std::string::npos);
  }
}

TEST_CASE("A chart places points by its scale and leaves out marks that would overlap") {
  Chart chart;
  chart.title = "t";
  chart.log_x = true;
  chart.x_marks = {{1, "one"}, {1.01, "hidden"}, {10, "ten"}, {100, "hundred"}};
  chart.lines = {{"a", {{1, 0}, {10, 50}, {100, 100}}, true}};
  const std::string svg = render_chart(chart);
  CHECK(testing::markup_problem(svg) == "");
  // The plot is 560 wide from 70 on and 280 high from 44 on: ten lies half-way, 50 too.
  CHECK_THAT(svg, Catch::Contains("points=\"70.0,324.0 350.0,184.0 630.0,44.0 \""));
  CHECK(svg.find("hidden") == std::string::npos);
  CHECK(svg.find(">ten<") != std::string::npos);
}

TEST_CASE("More lines than colours stay apart by their dashes, and the legend fits the chart") {
  Chart chart;
  for (int i = 0; i < 23; ++i) chart.lines.push_back({"p" + std::to_string(i), {{0, i}, {1, i}}});
  const std::string svg = render_chart(chart);
  CHECK(testing::markup_problem(svg) == "");
  CHECK(count(svg, "stroke=\"#3b7dd8\" stroke-width=\"1.6\" points") == 1);
  CHECK(count(svg, "stroke=\"#3b7dd8\" stroke-width=\"1.6\" stroke-dasharray=\"7 4\" points") == 1);
  CHECK(count(svg, "stroke=\"#3b7dd8\" stroke-width=\"1.6\" stroke-dasharray=\"2 3\" points") == 1);
  // 23 rows of 18 from 44 on.
  CHECK_THAT(svg, Catch::Contains("viewBox=\"0 0 860 514\""));
}
