// SPDX-License-Identifier: Apache-2.0
// The comparison policies beside the figures they are expected to reach: percent of reusable tokens
// recomputed, by policy, trace and budget.
//
// usage: bench_policy_tables TRACES [POLICY...]
// TRACES holds expected.csv (policy,trace,gb,percent) and the traces. Prints every cell and exits 1
// when one differs by more than half a point.
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "bench/tables/policy_table.hpp"

using namespace cairn;
using namespace cairn::bench;

namespace {

constexpr double kTolerance = 0.5;  // points

int compare(const std::string& folder, const std::set<std::string>& wanted) {
  std::map<std::string, std::unique_ptr<const engine::Trace>> traces;
  int cells = 0, off = 0;
  std::printf("%-18s %-26s %6s %8s %8s %7s %10s\n", "policy", "trace", "GB", "ours", "expected",
              "diff", "states/req");
  for (const TableCell& cell : read_policy_table(folder + "/expected.csv")) {
    if (!wanted.empty() && wanted.count(cell.policy) == 0) continue;
    auto& trace = traces[cell.trace];
    if (!trace) trace = engine::read_trace(folder + "/" + cell.trace + ".csv.gz");
    const engine::ReplayResult r = replay_cell(cell, *trace);
    const double difference = r.share() - cell.percent;
    const bool bad = std::abs(difference) > kTolerance;
    std::printf("%-18s %-26s %6g %8.2f %8.2f %+7.2f %10.2f%s\n", cell.policy.c_str(),
                cell.trace.c_str(), cell.gigabytes, r.share(), cell.percent, difference,
                static_cast<double>(r.states_written) / static_cast<double>(trace->size()),
                bad ? "  !" : "");
    ++cells;
    off += bad ? 1 : 0;
  }
  std::printf("%d cells, %d of them more than %.1f points off\n", cells, off, kTolerance);
  return off == 0 && cells > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s TRACES [POLICY...]\n", argv[0]);
    return 2;
  }
  try {
    return compare(argv[1], std::set<std::string>(argv + 2, argv + argc));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
