// SPDX-License-Identifier: Apache-2.0
// The comparison of one workload as markdown and as a chart.
#pragma once

#include <string>
#include <vector>

#include "bench/paper/compare.hpp"
#include "bench/paper/online.hpp"

namespace cairn::paper {

/// Everything measured on one workload; shares are 0 to 1, by rule and then by
/// kBudgets.
struct Comparison {
  std::string name;
  std::size_t requests = 0, samples = 0;
  std::int64_t retained = 0, groups = 0;
  Scale scale = Scale::fraction;  // the one that predicts better, summed over the budgets
  std::int64_t length = 0;        // of the pooled prompt
  std::vector<std::vector<double>> in_sample;  // by kRules
  std::vector<std::vector<double>> held_out;   // by kRules: fitted to even, measured on odd samples
  std::vector<double> other_held_out;          // dp on the other scale
  std::vector<double> forest;                  // exact, in sample, M states a group in all
  int reached_in_sample = 0, reached_held_out = 0;  // dp at block's 20 states
  std::vector<OnlineRow> online;
};

Comparison compare(const Workload& workload);

/// What the tables mean; goes before them.
std::string preface();

/// A heading, the tables in percent of the reusable tokens, and what they show.
std::string to_markdown(const Comparison& comparison);

/// Share recomputed in sample over states, as an SVG that stands alone.
std::string to_svg(const Comparison& comparison);

}  // namespace cairn::paper
