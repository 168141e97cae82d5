// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/tables.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "engine/simulate/report_chart.hpp"
#include "engine/simulate/report_layout.hpp"

namespace cairn::paper {
namespace {

using Shares = std::vector<std::vector<double>>;

Shares measure(const Pooled& fit, const Pooled& on) {
  Shares out;
  for (const Rule rule : kRules) {
    auto& row = out.emplace_back();
    for (const int states : kBudgets) row.push_back(share(rule, states, fit, on));
  }
  return out;
}

const std::vector<double>& row_of(const Shares& shares, Rule rule) {
  return shares[static_cast<std::size_t>(rule)];
}

double sum(const std::vector<double>& row) { return std::accumulate(row.begin(), row.end(), 0.0); }

/// Every second sample, from the first or the second on.
std::vector<Sample> half(const std::vector<Sample>& samples, std::size_t from) {
  std::vector<Sample> out;
  for (std::size_t i = from; i < samples.size(); i += 2) out.push_back(samples[i]);
  return out;
}

// The in-sample optimum is no worse than any baseline, or the program is wrong.
// One rounding of a sum of as many terms is allowed for.
void require_optimal(const Shares& shares) {
  const auto& best = row_of(shares, Rule::dp);
  for (const auto& row : shares) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      check(best[i] <= row[i] * (1 + 1e-12), "a baseline beats the optimum in sample");
    }
  }
}

std::string percent(double share) { return engine::fixed(100 * share, 2); }

void table_head(std::string& out, const char* first) {
  out += std::string("| ") + first + " |";
  for (const int states : kBudgets) out += " " + std::to_string(states) + " |";
  out += "\n|--|";
  for (std::size_t i = 0; i < kBudgets.size(); ++i) out += "--|";
  out += "\n";
}

void table_row(std::string& out, const std::string& name, const std::vector<double>& shares) {
  out += "| " + name + " |";
  for (const double s : shares) out += " " + percent(s) + " |";
  out += "\n";
}

void rule_table(std::string& out, const char* first, const Shares& shares) {
  table_head(out, first);
  for (const Rule rule : kRules) {
    table_row(out, to_string(rule), row_of(shares, rule));
  }
}

}  // namespace

Comparison compare(const Workload& workload) {
  const auto samples = partial_overlaps(workload);
  const auto even = half(samples, 0), odd = half(samples, 1);
  Comparison out;
  out.name = workload.name;
  out.requests = workload.requests.size();
  out.samples = samples.size();
  double best = 0;
  for (const Scale scale : {Scale::fraction, Scale::absolute}) {
    const Pooled all = pool(samples, scale, samples);
    const Pooled fit = pool(even, scale, samples), on = pool(odd, scale, samples);
    Shares held_out = measure(fit, on);
    const double dp = sum(row_of(held_out, Rule::dp));
    if (scale == Scale::absolute && dp >= best) {
      out.other_held_out = row_of(held_out, Rule::dp);
      continue;
    }
    if (!out.held_out.empty()) out.other_held_out = row_of(out.held_out, Rule::dp);
    best = dp;
    out.scale = scale;
    out.length = all.length;
    out.in_sample = measure(all, all);
    require_optimal(out.in_sample);
    out.held_out = std::move(held_out);
    out.reached_in_sample = dp_reaches_block(20, all, all);
    out.reached_held_out = dp_reaches_block(20, fit, on);
  }
  out.groups = groups(workload);
  out.retained = retained_prompts(workload);
  std::vector<std::int64_t> states;
  for (const int m : kBudgets) states.push_back(m * out.groups);
  out.forest = forest_shares(workload, states);
  out.online = replay_online(workload, out.length);
  return out;
}

std::string preface() {
  return R"(# The published comparison

Where to keep M recurrent states of a retained prompt, after "Sparse Prefix Caching for Hybrid and
Recurrent LLM Serving" (arXiv 2605.05219): percent of the shared tokens that are recomputed by requests
that leave a retained prompt before its end (whose state every rule has). Written by
`bench_paper tables`; texts in the published forms of QuALITY and NarrativeQA, and folders of system
prompts, join the tables by `--quality`, `--narrativeqa` and `--system-prompts`.

* *In sample*: every rule has M states on each retained prompt; all prompts are laid over one another, by
  tokens or by share of their length, whichever predicts better held out. `dp` is the exact optimum of this
  pool (the O(NM) programme) and at most every baseline at every M, which the program checks.
* `forest (exact, M a group)` plans the whole forest of prompts at once, knowing every request, with only M
  states for each group (requests that share less than half of their prompt with any before open one): far
  fewer states than M for each prompt.
* *Held out*: `dp` is fitted to the even overlaps, all are measured on the odd ones.
* *On line*: the same rules as policies that know nothing ahead, through the simulator, within M states for
  each of the 20 groups that are live at once, ends included, KV free.
* `none` and `kv_only` recompute everything: KV alone saves no recurrent layer and so none above it.
* `sqrt_spacing` has multiples of the root of the length; of more than M the deepest are kept.

)";
}

std::string to_markdown(const Comparison& c) {
  const bool fraction = c.scale == Scale::fraction;
  std::string out = "### " + c.name + "\n\n" + std::to_string(c.requests) + " requests, of which " +
                    std::to_string(c.samples) + " leave one of " + std::to_string(c.retained) +
                    " earlier prompts before its end; " + std::to_string(c.groups) +
                    " groups. Positions by " +
                    (fraction ? "share of the prompt (mean " : "tokens (longest ") +
                    std::to_string(c.length) + " tokens).\n\n";
  rule_table(out, "in sample, states", c.in_sample);
  table_row(out, "forest (exact, M a group)", c.forest);
  out += "\n";
  rule_table(out, "held out, states", c.held_out);
  table_row(out, std::string("dp by ") + (fraction ? "tokens" : "share"), c.other_held_out);
  out += "\n`dp` reaches `block` with 20 states at M = " + std::to_string(c.reached_in_sample) +
         " in sample, M = " + std::to_string(c.reached_held_out) + " held out.\n\n";
  table_head(out, "on line, states a live group");
  for (const OnlineRow& row : c.online) table_row(out, row.policy, row.shares);
  return out + "\n";
}

std::string to_svg(const Comparison& c) {
  engine::Chart chart;
  chart.title = c.name;
  chart.x_label = "states a retained prompt (logarithmic)";
  chart.y_label = "% of shared tokens recomputed, in sample";
  chart.log_x = true;
  for (const int states : kBudgets) chart.x_marks.emplace_back(states, std::to_string(states));
  const auto add = [&](const std::string& name, const std::vector<double>& shares, bool bold) {
    engine::ChartLine& line = chart.lines.emplace_back();
    line.name = name;
    line.bold = bold;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      line.points.emplace_back(kBudgets[i], 100 * shares[i]);
    }
  };
  for (const Rule rule : kRules) add(to_string(rule), row_of(c.in_sample, rule), rule == Rule::dp);
  add("forest (exact)", c.forest, false);
  add("dp, held out", row_of(c.held_out, Rule::dp), false);
  return engine::render_chart(chart) + "\n";
}

}  // namespace cairn::paper
