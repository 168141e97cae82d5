// SPDX-License-Identifier: Apache-2.0
// The default rule in the simulator, where the planner's plans come late: what the delay costs, and
// the processor time that rule and planner take a request, above a rule that only keeps order.
// Markdown.
//
// usage: bench_planner TRACE
// Exits 1 when a delay costs more than a point, or a request more than 0.2 ms.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>

#include "engine/placement/policy_names.hpp"
#include "engine/simulate/simulator.hpp"

using namespace cairn;

namespace {

constexpr std::array kGigabytes = {1.0, 4.0, 16.0};
constexpr std::array kLags = {0, 8, 16, 64};  // requests
constexpr double kMostPoints = 1;
constexpr double kMostMs = 0.2;  // a request

struct Run {
  double percent = 0, ms = 0;  // recomputed; processor time a request
};

Run run(const engine::Trace& trace, const char* policy, double gigabytes, int lag) {
  engine::SimulatorOptions options;
  options.bytes = static_cast<std::uint64_t>(gigabytes * 1e9);
  options.plan_lag = lag;
  const std::clock_t start = std::clock();
  const auto r = engine::simulate(trace, engine::make_cache_policy(policy).take(), options);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {100 * r.recomputed_share(), 1e3 * seconds / static_cast<double>(trace.size())};
}

int measure(const char* path) {
  const auto trace = engine::read_trace(path);
  int missed = 0;
  std::printf("| GB |");
  for (const int lag : kLags) std::printf(" %d later |", lag);
  std::printf(" ms a request |\n|--|--|--|--|--|--|\n");
  for (const double gb : kGigabytes) {
    std::printf("| %g |", gb);
    const double others = run(*trace, "branch", gb, 0).ms;
    double prompt = 0, worst = 0;
    std::array<double, kLags.size()> ms{};
    for (std::size_t i = 0; i < kLags.size(); ++i) {
      const Run forest = run(*trace, "forest", gb, kLags[i]);
      if (i == 0) prompt = forest.percent;
      worst = std::max(worst, forest.percent - prompt);
      ms[i] = forest.ms - others;
      std::printf(" %.2f |", forest.percent);
      std::fflush(stdout);
    }
    std::sort(ms.begin(), ms.end());
    const double median = (ms[1] + ms[2]) / 2;
    std::printf(" %.3f |\n", median);
    missed += (worst > kMostPoints ? 1 : 0) + (median > kMostMs ? 1 : 0);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TRACE\n", argv[0]);
    return 2;
  }
  try {
    return measure(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
}
