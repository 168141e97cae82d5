// SPDX-License-Identifier: Apache-2.0
// Placement under drifting demand: exponential weights of several memories and the learned hazards,
// beside the bound F(N) TV. Prints tables; writes a drawing if asked.
//
// usage: bench_drift [FILE.svg]
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "engine/simulate/drift.hpp"
#include "engine/simulate/report_chart.hpp"

using namespace cairn::engine;

namespace {

constexpr int kSeeds = 8;
constexpr int kWindow = 100;  // requests that a point of a curve is the mean of
constexpr double kChartWidth = 860, kChartHeight = 400;

struct Curve {
  std::string name;
  std::vector<DriftStep> steps;  // means over the seeds
  double recovery = 0;           // requests after the jumps, mean over seeds and jumps
};

// Back to within a fifth of the mean regret of planning from no sample at all.
double recovery(const std::vector<DriftStep>& steps) {
  const auto length = static_cast<int>(steps.size());
  double sum = 0;
  for (int jump = 1; jump < 4; ++jump) {
    const int from = jump * length / 4;
    const std::span<const DriftStep> quarter(steps.data(),
                                             static_cast<std::size_t>(from + length / 4));
    sum += recovery_steps(quarter, from, 20, steps.front().regret / 5) / 3.0;
  }
  return sum;
}

std::vector<Curve> curves(Drift drift) {
  std::vector<Curve> out;
  for (int seed = 0; seed < kSeeds; ++seed) {
    DriftOptions options;
    options.seed += static_cast<std::uint64_t>(seed);
    const auto estimators = drift_estimators(options);
    out.resize(estimators.size());
    for (std::size_t i = 0; i < estimators.size(); ++i) {
      const auto steps = run_drift(options, drift, *estimators[i]);
      out[i].name = estimators[i]->name();
      out[i].steps.resize(steps.size());
      for (std::size_t s = 0; s < steps.size(); ++s) {
        out[i].steps[s].regret += steps[s].regret / kSeeds;
        out[i].steps[s].bound += steps[s].bound / kSeeds;
      }
      out[i].recovery += recovery(steps) / kSeeds;
    }
  }
  return out;
}

void print(Drift drift, const std::vector<Curve>& curves) {
  std::printf("%s\n  %-14s %16s %16s%s\n", to_string(drift), "estimate", "regret, tokens",
              "bound, tokens", drift == Drift::jump ? "   recovery, requests" : "");
  for (const Curve& c : curves) {
    const DriftStep m = mean(c.steps);
    std::printf("  %-14s %16.2f %16.1f", c.name.c_str(), m.regret, m.bound);
    if (drift == Drift::jump) std::printf(" %20.0f", c.recovery);
    std::printf("\n");
  }
}

std::string drawing(Drift drift, const std::vector<Curve>& curves, bool bound) {
  Chart chart;
  chart.title =
      std::string(bound ? "Bound F(N) TV, drift: " : "Regret, drift: ") + to_string(drift);
  chart.x_label = "request";
  chart.y_label = "tokens per request (mean of " + std::to_string(kWindow) + ")";
  for (const Curve& c : curves) {
    ChartLine line{c.name, {}, false};
    for (std::size_t at = 0; at + kWindow <= c.steps.size(); at += kWindow / 2) {
      const DriftStep m = mean(std::span(c.steps).subspan(at, kWindow));
      line.points.emplace_back(static_cast<double>(at) + kWindow / 2.0, bound ? m.bound : m.regret);
    }
    chart.lines.push_back(std::move(line));
  }
  return render_chart(chart);
}

}  // namespace

int main(int argc, char** argv) {
  std::string svg;
  double y = 0;
  for (const Drift drift : kDrifts) {
    const std::vector<Curve> all = curves(drift);
    print(drift, all);
    for (const bool bound : {false, true}) {
      svg += "<svg x=\"" + std::to_string(bound ? kChartWidth : 0) + "\" y=\"" + std::to_string(y) +
             "\" width=\"" + std::to_string(kChartWidth) + "\" height=\"" +
             std::to_string(kChartHeight) + "\">" + drawing(drift, all, bound) + "</svg>\n";
    }
    y += kChartHeight;
  }
  if (argc < 2) return 0;
  std::ofstream file(argv[1]);
  file << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << 2 * kChartWidth << "\" height=\""
       << y << "\">\n"
       << svg << "</svg>\n";
  file.close();
  if (file) return 0;
  std::fprintf(stderr, "bench_drift: cannot write %s\n", argv[1]);
  return 1;
}
