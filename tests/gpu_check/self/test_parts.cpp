// SPDX-License-Identifier: Apache-2.0
// Parts that end otherwise than they should, and what is written of them.
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/json.hpp"
#include "tests/gpu_check/parts.hpp"
#include "tests/support/catch.hpp"

namespace cairn::gpu_check {
namespace {

std::vector<Row> run(const std::vector<Part>& parts, double seconds = 30) {
  const auto path =
      std::filesystem::temp_directory_path() / ("cairn_parts_" + std::to_string(getpid()));
  std::vector<Row> rows = run_parts(parts, seconds, path);
  std::filesystem::remove(path);
  return rows;
}

const Part kFirst{"first", 5, 0, true, [](Context& c) { c.report.measured("speed", 4.5, "GB/s"); }};

}  // namespace

TEST_CASE("a part that crashes, throws or hangs fails, keeps its rows and stops no other") {
  const std::vector<Row> rows = run({
      kFirst,
      {"crashes", 5, 0, true,
       [](Context& c) {
         c.report.passed("before");
         std::raise(SIGKILL);
       }},
      {"throws", 5, 0, true, [](Context&) { throw std::runtime_error("no \"memory\"\n"); }},
      {"hangs", 0.1, 0, true, [](Context&) { pause(); }},
      {"may hang", 0.1, 0, false, [](Context&) { pause(); }},
      {"last", 5, 0, true,
       [](Context& c) { c.report.measured("twice", 2 * c.measured["speed"], "GB/s"); }},
  });
  REQUIRE(rows.size() == 7);
  CHECK(rows[1].name == "before");
  CHECK(rows[1].state == State::passed);
  CHECK(rows[2].part == "crashes");
  CHECK(rows[2].state == State::failed);
  CHECK(rows[2].note == "ended by signal 9");
  CHECK(rows[3].state == State::failed);
  CHECK(rows[3].note == "no \"memory\"\n");
  CHECK(rows[4].state == State::failed);
  CHECK(rows[5].state == State::skipped);
  CHECK(rows[5].note == "stopped after 1 s");
  CHECK(rows[6].value == 9.0);
}

TEST_CASE("nothing runs after a first part that failed") {
  const std::vector<Row> rows =
      run({{"device", 5, 0, true, [](Context&) { throw std::runtime_error("none"); }}, kFirst});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].note == "none");
}

TEST_CASE("a part is not begun with less time than it needs, and knows how much it has") {
  const std::vector<Row> rows = run(
      {
          {"first", 3, 0, true,
           [](Context& c) {
             c.report.measured("left", c.seconds_left(), "s");
             c.report.fact("short", c.has_time(1, "short") ? "yes" : "no");
             c.has_time(10, "long");
           }},
          {"second", 50, 20, true, [](Context& c) { c.report.passed("second"); }},
      },
      10);
  REQUIRE(rows.size() == 4);
  CHECK(std::abs(rows[0].value - 3) < 0.5);
  CHECK(rows[1].note == "yes");
  CHECK(rows[2].state == State::skipped);
  CHECK(rows[3].part == "second");
  CHECK(rows[3].note == "no time left");
}

TEST_CASE("what one part prepares is there for all, and made once") {
  static int made = 0;
  const auto once = [] {
    static const int first = ++made;
    (void)first;
  };
  const auto tell = [](Context& c) { c.report.measured("made", made, "times"); };
  const std::vector<Row> rows =
      run({{"first", 5, 0, true, tell},
           {"second", 5, 0, true, tell, once},
           {"third", 5, 0, true, tell, once},
           {"fourth", 5, 0, true, tell, [] { throw std::runtime_error("no memory"); }}});
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].value == 0);
  CHECK(rows[1].value == 1);
  CHECK(rows[2].value == 1);
  CHECK(made == 1);  // here, not in each process
  CHECK(rows[3].state == State::failed);
  CHECK(rows[3].note == "no memory");
}

TEST_CASE("rows come back from a file as they were, a line cut short left out") {
  const auto path =
      std::filesystem::temp_directory_path() / ("cairn_rows_" + std::to_string(getpid()));
  Report report(path, "a \"part\"");
  report.share("gemm\\", 1234.5, "us", 0.25, "of reading speed");
  report.skipped("tab\t", "why");
  std::ofstream(path, std::ios::app) << R"({"part": "x", "na)";
  const std::vector<Row> rows = read_rows(path);
  std::filesystem::remove(path);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].part == "a \"part\"");
  CHECK(rows[0].name == "gemm\\");
  CHECK(rows[0].value == 1234.5);
  CHECK(rows[0].unit == "us");
  CHECK(rows[0].share == 0.25);
  CHECK(rows[1].state == State::skipped);
  CHECK(rows[1].name == "tab\t");
  const std::string text = table(rows);
  CHECK(text.find("1234 us") != std::string::npos);
  CHECK(text.find("25 %") != std::string::npos);
  const auto all = json::parse(document(rows, true, 1.5));
  REQUIRE(all);
  CHECK(all->find("rows")->items().size() == 2);
}

TEST_CASE("what is no number of JSON is written as null") {
  Row row{"part", "name"};
  row.unit = "us";
  row.value = std::nan("");
  CHECK(json::parse(to_json(row))->find("value")->is(json::Kind::null));
}

}  // namespace cairn::gpu_check
