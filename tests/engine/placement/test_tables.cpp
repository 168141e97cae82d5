// SPDX-License-Identifier: Apache-2.0
// The comparison policies are as strong as they should be: a part of bench/policy_tables.
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "bench/tables/policy_table.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::bench;

namespace {

const std::string kTraces = std::string(CAIRN_SOURCE_DIR) + "/bench/traces/";

// Replays the cells that `wanted` picks; how many there are.
template <class Wanted>
int compared(const Wanted& wanted) {
  std::map<std::string, std::unique_ptr<const engine::Trace>> traces;
  int cells = 0;
  for (const TableCell& cell : read_policy_table(kTraces + "expected.csv")) {
    if (!wanted(cell)) continue;
    auto& trace = traces[cell.trace];
    if (!trace) trace = engine::read_trace(kTraces + cell.trace + ".csv.gz");
    const double ours = replay_cell(cell, *trace).share();
    INFO(cell.policy << " on " << cell.trace << " at " << cell.gigabytes << " GB: " << ours
                     << " %, expected " << cell.percent);
    CHECK(std::abs(ours - cell.percent) <= 0.5);
    ++cells;
  }
  return cells;
}

}  // namespace

TEST_CASE("documents with questions and one few-shot prompt: all policies recompute as expected") {
  CHECK(compared([](const TableCell& c) {
          return c.trace == "xquad_en_live20" || c.trace == "gsm8k8shot";
        }) == 96);
}

TEST_CASE("few-shot prompts of many tasks: all policies recompute as expected at 4 GB") {
  CHECK(compared([](const TableCell& c) {
          return c.trace == "bbh3shot_live20" && c.gigabytes == 4;
        }) == 12);
}

TEST_CASE("a server with five tenants: three policies recompute as expected at 16 GB") {
  const std::set<std::string> policies = {"branch_path", "balanced:4", "dp:4"};
  CHECK(compared([&](const TableCell& c) {
          return c.trace == "mix5" && c.gigabytes == 16 && policies.count(c.policy) == 1;
        }) == 3);
}
