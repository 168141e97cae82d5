// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"
#include "cli/load/report.hpp"
#include "cli/load/scrape.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/markup.hpp"

using namespace cairn;
using namespace cairn::load;

namespace {

Record answered(Kind kind, double intended, double sent, double first, double ended) {
  Record r;
  r.planned.kind = kind;
  r.intended = intended;
  r.sent = sent;
  r.first = first;
  r.ended = ended;
  r.gaps = {0.002, 0.004};
  r.prompt_tokens = 100;
  r.cached_tokens = 60;
  r.answer_tokens = 3;
  r.needed = 30;
  r.text = "x";
  r.digest = "d";
  return r;
}

std::vector<Group> groups_of(std::span<const Record> records) {
  Tally tally;
  for (const Record& record : records) {
    if (!record.warm_up) tally.add(record);
  }
  tally.add_needed(records);
  return tally.take();
}

Report two_passes() {
  Report report;
  report.server = "http://a & <b>";
  report.facts = {{"seed", "1"}, {"passes", "2"}};
  for (const char* name : {"first pass", "second pass"}) {
    Pass pass;
    pass.name = name;
    pass.seconds = 2;
    pass.records = {answered(Kind::documents, 0, 0, 0.5, 1), answered(Kind::chat, 1, 1.25, 2, 2),
                    answered(Kind::documents, 1, 1, 1, 1), Record{}};
    pass.records[2].warm_up = true;
    pass.records[3].error = "timeout";
    pass.server = {{"cairn_step_seconds_sum{phase=\"decode\"}", 0.5},
                   {"cairn_step_seconds_sum{phase=\"prefill\"}", 0.25}};
    pass.groups = groups_of(pass.records);
    report.passes.push_back(std::move(pass));
  }
  return report;
}

}  // namespace

TEST_CASE("figures are of what was measured, times from when a request was to be sent") {
  const Report report = two_passes();
  const std::vector<Group>& groups = report.passes[0].groups;
  REQUIRE(groups.size() == 3);
  const Group& all = groups[0];
  CHECK(all.name == "all");
  CHECK(all.requests == 3);
  CHECK(all.answered == 2);
  CHECK(all.errors == std::map<std::string, std::int64_t>{{"timeout", 1}});
  CHECK(all.first_ms.within(10) ==
        std::vector<std::pair<double, std::int64_t>>{{500, 1}, {1000, 2}});
  CHECK(all.gap_ms.count() == 4);
  CHECK(all.gap_ms.most() == Approx(4));
  CHECK(all.late_ms.most() == Approx(250));
  CHECK(all.prompt_tokens == 200);
  CHECK(all.computed == 80);
  CHECK(all.needed == 60);
  CHECK(groups[1].name == "documents");
  CHECK(groups[2].total_ms.percentile(0.5) == Approx(1000));
}

TEST_CASE("what a cache without limits needs is told only where it is known of every answer") {
  std::vector<Record> records = {answered(Kind::chat, 0, 0, 1, 1),
                                 answered(Kind::chat, 0, 0, 1, 1)};
  records[1].needed.reset();
  CHECK_FALSE(groups_of(records)[0].needed);
  CHECK_FALSE(groups_of({})[0].needed);
}

TEST_CASE("tokens that the server does not tell of each answer are not reported as none") {
  std::vector<Record> records = {answered(Kind::chat, 0, 0, 1, 1),
                                 answered(Kind::chat, 0, 0, 1, 1)};
  records[1].cached_tokens.reset();
  Report report;
  report.passes.emplace_back().groups = groups_of(records);
  report.passes[0].records = records;
  const Group& group = report.passes[0].groups[0];
  CHECK(group.prompt_tokens == 200);
  CHECK_FALSE(group.computed);
  CHECK_THAT(report_text(report), Catch::Contains("computed not reported"));
  CHECK_THAT(report_json(report, true), Catch::Contains("\"computed_tokens\":null"));
  CHECK_THAT(report_html(report), Catch::Contains("not reported"));
}

TEST_CASE("what is not exact in a report is said in it") {
  Report report = two_passes();
  CHECK(exactness(report).empty());
  for (int i = 0; i < 5000; ++i) report.passes[0].groups[0].total_ms.add(i);
  CHECK_THAT(exactness(report), Catch::Contains("4096") && !Catch::Contains("slower"));
  CHECK_THAT(report_json(report, false), Catch::Contains("\"percentile_error\":0.005}"));
  report.passes[0].groups[0].shrink(4 * 64 * 40);
  CHECK(report.passes[0].groups[0].bytes() <= 4 * 64 * 40);
  CHECK_THAT(exactness(report), Catch::Contains("at most") && !Catch::Contains("0.5 %"));
  report.passes[1].every = false;
  CHECK_THAT(report_text(report), Catch::Contains("4096") && Catch::Contains("slower"));
}

TEST_CASE("a page has no more dots than are seen, the slowest request and none that warms up") {
  Report report = two_passes();
  auto& records = report.passes[0].records;
  for (int i = 0; i < 5000; ++i) {
    records.push_back(answered(Kind::chat, i, i, i + (i == 4321 ? 77.0 : 0.5), i + 78));
  }
  records[2].ended = 1e6;  // a warm-up
  const std::string page = report_html(report);
  std::size_t dots = 0;
  for (auto at = page.find("<circle"); at != std::string::npos; at = page.find("<circle", at + 1))
    ++dots;
  CHECK(dots > 250);
  CHECK(dots < 600);
  CHECK_THAT(page, Catch::Contains(">80000<") && !Catch::Contains("1000000"));
}

TEST_CASE("the report is JSON, text and a page that is well-formed") {
  Report report = two_passes();
  report.ended = "interrupted";
  const auto parsed = json::parse(report_json(report, false));
  REQUIRE(parsed.ok());
  CHECK(parsed->find("load")->find("passes")->text() == "2");
  const json::Value& pass = parsed->find("passes")->items()[0];
  CHECK(pass.find("workloads")->items().size() == 3);
  CHECK(pass.find("workloads")->items()[0].find("first_token_ms")->find("max")->as_double() ==
        1000);
  CHECK(pass.find("server_busy_seconds")->as_double() == 0.75);
  CHECK_FALSE(pass.find("requests"));
  CHECK(json::parse(report_json(report, true))
            ->find("passes")
            ->items()[1]
            .find("requests")
            ->items()
            .size() == 4);

  const std::string text = report_text(report);
  CHECK_THAT(text, Catch::Contains("1 failed: timeout"));
  CHECK_THAT(text, Catch::Contains("busy 37.5 %"));
  CHECK_THAT(text, Catch::Contains("not complete: interrupted"));

  const std::string page = report_html(report);
  CHECK_THAT(page, Catch::Contains("1.00 requests/s") && Catch::Contains("busy 37.5 %"));
  CHECK(testing::markup_problem(page.substr(page.find("<html"))) == "");
  std::size_t charts = 0;
  for (auto at = page.find("<svg"); at != std::string::npos; at = page.find("<svg", at + 1))
    ++charts;
  CHECK(charts == 7);  // three of times; requests and tokens of each pass
  CHECK(testing::markup_problem(
            report_html(Report{}).substr(report_html(Report{}).find("<html"))) == "");
}

TEST_CASE("of many requests the slowest one is in the curves") {
  Report report = two_passes();
  Spread totals;
  for (int i = 0; i < 1200; ++i) totals.add(10 + 1e-3 * i);
  totals.add(6000);
  report.passes[0].groups[0].total_ms = totals;
  CHECK_THAT(report_html(report), Catch::Contains(">5000<"));
}

TEST_CASE("a server's counters are read by series, and what they grew by") {
  const std::string page =
      "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"x y}z\"} 3\na_total 1.5\n"
      "b_bucket{le=\"+Inf\"} 9\nb_sum 2e1\nb_count 7\ngauge 8\nbroken_total\nbad_total x\n\n";
  const Series series = read_series(page);
  CHECK(series ==
        Series{{"a_total{l=\"x y}z\"}", 3}, {"a_total", 1.5}, {"b_sum", 20}, {"b_count", 7}});
  CHECK(sum_of(series, "a_total") == 4.5);
  CHECK(growth({{"a_total", 1}, {"b_sum", 20}}, series) ==
        Series{{"a_total", 0.5}, {"a_total{l=\"x y}z\"}", 3}, {"b_count", 7}});
  CHECK(growth({}, series).empty());
}
