// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "metrics/metrics.hpp"
#include "metrics/table.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;

namespace {

// name{labels} -> value; fails the test on a line that the text format does not allow.
std::map<std::string, double> parse_strictly(const std::string& page) {
  static const std::regex sample(
      R"re(^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*")*\})? (\S+)$)re");
  std::map<std::string, double> values;
  std::map<std::string, std::string> types;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# HELP ", 0) == 0) continue;
    if (line.rfind("# TYPE ", 0) == 0) {
      const auto space = line.find(' ', 7);
      const auto name = line.substr(7, space - 7);
      INFO(line);
      CHECK(types.emplace(name, line.substr(space + 1)).second);
      continue;
    }
    std::smatch parts;
    INFO(line);
    REQUIRE(std::regex_match(line, parts, sample));
    CHECK(values.emplace(parts[1].str() + parts[2].str(), std::stod(parts[3])).second);
    std::string base = parts[1];
    for (const char* tail : {"_bucket", "_sum", "_count"})
      if (!types.count(base) && base.size() > std::string(tail).size() && base.ends_with(tail))
        base.resize(base.size() - std::string(tail).size());
    CHECK(types.count(base) == 1);
  }
  CHECK(page.back() == '\n');
  return values;
}

std::string without_process(const std::string& page) {
  std::istringstream lines(page);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (line.find("process_") == std::string::npos) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("D6 the page is valid text exposition with its content type") {
  Metrics m;
  m.set_build_info("0.1.0", "cpu", "avx512");
  m.set_model_info("a \"quoted\\ name\nover lines", "24x1024");
  m.set_cache_config_info(1, 1u << 30, "dp:4+branch", "bf16");
  m.requests_total(Endpoint::chat, Outcome::stop).add();
  m.time_to_first_token_seconds(CacheTemperature::warm).observe(0.004);
  const auto values = parse_strictly(m.render());
  CHECK(values.at("cairn_requests_total{endpoint=\"chat\",outcome=\"stop\"}") == 1);
  CHECK(values.at("cairn_requests_total{endpoint=\"completions\",outcome=\"error\"}") == 0);
  CHECK(values.at("cairn_time_to_first_token_seconds_bucket{cache=\"warm\",le=\"0.0025\"}") == 0);
  CHECK(values.at("cairn_time_to_first_token_seconds_bucket{cache=\"warm\",le=\"0.005\"}") == 1);
  CHECK(values.at("cairn_time_to_first_token_seconds_bucket{cache=\"warm\",le=\"+Inf\"}") == 1);
  CHECK(Metrics::content_type() == "text/plain; version=0.0.4; charset=utf-8");
}

TEST_CASE("D9 counters are written with _total and no other metric is") {
  for (const auto& row : metrics::table()) {
    INFO(row.name);
    CHECK((row.kind == metrics::Kind::counter) == row.name.ends_with("_total"));
    CHECK(row.labels.size() <= 2);
    CHECK_FALSE(row.help.empty());
    CHECK(row.help.back() == '.');
    CHECK((row.kind == metrics::Kind::histogram) == !row.buckets.empty());
    CHECK(std::is_sorted(row.buckets.begin(), row.buckets.end()));
  }
}

TEST_CASE("D8 buckets reach from one millisecond to forty minutes") {
  for (const auto& row : metrics::table()) {
    if (row.name == "time_to_first_token_seconds") CHECK(row.buckets.front() == 0.001);
    if (row.name == "inter_token_latency_seconds") CHECK(row.buckets.front() == 0.001);
    if (row.name == "e2e_request_latency_seconds") CHECK(row.buckets.back() == 2400);
    if (row.name == "request_prompt_tokens") CHECK(row.buckets.back() == 262144);
  }
}

TEST_CASE("D1 a negative or NaN step is dropped and nothing throws") {
  Metrics m;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  m.prompt_tokens_total().add(5);
  m.prompt_tokens_total().add(-3);
  m.prompt_tokens_total().add(nan);
  CHECK(m.prompt_tokens_total().value() == 5);
  m.kv_cache_usage_perc().set(0.5);
  m.kv_cache_usage_perc().set(nan);
  CHECK(m.kv_cache_usage_perc().value() == 0.5);
  m.step_seconds(Phase::mixed).observe(nan);
  m.step_seconds(Phase::mixed).observe(-1);
  CHECK(m.step_seconds(Phase::mixed).count() == 1);
  CHECK(m.step_seconds(Phase::mixed).sum() == 0);
  m.batch_size(static_cast<Phase>(77)).observe(1);  // a label that does not exist
  m.requests_total(static_cast<Endpoint>(9), Outcome::stop).add();
  m.requests_total(Endpoint::api, static_cast<Outcome>(9)).add();
  const auto values = parse_strictly(m.render());
  for (const auto& [name, value] : values)
    if (name.rfind("cairn_requests_total", 0) == 0) CHECK(value == 0);
}

TEST_CASE("D7 ten thousand endpoint names make no series") {
  Metrics m;
  const auto before = parse_strictly(m.render()).size();
  for (int i = 0; i < 10000; ++i)
    m.requests_total(endpoint_label("model-" + std::to_string(i)), Outcome::stop).add();
  const auto after = parse_strictly(m.render());
  CHECK(after.size() == before);
  CHECK(after.at("cairn_requests_total{endpoint=\"api\",outcome=\"stop\"}") == 10000);
}

TEST_CASE("two scrapes of an idle process are equal but for process metrics") {
  Metrics m;
  m.request_cached_tokens().observe(100);
  const auto first = m.render();
  CHECK(first.find("process_resident_memory_bytes ") != std::string::npos);
  CHECK(without_process(first) == without_process(m.render()));
}

TEST_CASE("an info metric is set once") {
  Metrics m;
  m.set_build_info("1", "cpu", "avx2");
  m.set_build_info("2", "cpu", "avx2");
  const auto values = parse_strictly(m.render());
  CHECK(values.count("cairn_build_info{backend=\"cpu\",isa=\"avx2\",version=\"1\"}") == 1);
  CHECK(values.count("cairn_build_info{backend=\"cpu\",isa=\"avx2\",version=\"2\"}") == 0);
}

TEST_CASE("counting from several threads while the page is read loses nothing") {
  Metrics m;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&m] {
      for (int i = 0; i < 5000; ++i) {
        m.generation_tokens_total().add();
        m.inter_token_latency_seconds().observe(0.01);
      }
    });
  for (int i = 0; i < 20; ++i) CHECK_FALSE(m.render().empty());
  for (auto& thread : threads) thread.join();
  CHECK(m.generation_tokens_total().value() == 20000);
  CHECK(m.inter_token_latency_seconds().count() == 20000);
}
