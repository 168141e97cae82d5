// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cli/load/report.hpp"
#include "engine/simulate/report_chart.hpp"
#include "engine/simulate/report_layout.hpp"
#include "engine/simulate/report_page.hpp"

namespace cairn::load {
namespace {

using engine::append_cell;
using engine::Chart;
using engine::ChartLine;
using engine::fixed;

constexpr std::size_t kMostPoints = 400;  // of a curve, about: more would not be seen

void row(std::string& out, const char* tag, const std::vector<std::string>& cells) {
  out += "<tr>";
  for (const std::string& cell : cells) append_cell(out, tag, cell);
  out += "</tr>";
}

std::string three(const Spread& spread) {
  if (spread.ascending.empty()) return "-";
  return fixed(spread.p50, 1) + " / " + fixed(spread.p99, 1) + " / " + fixed(spread.most, 1);
}

std::string errors_of(const Group& group) {
  std::string out;
  for (const auto& [kind, count] : group.errors) {
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  }
  return out.empty() ? "none" : out;
}

void table(std::string& out, const Pass& pass) {
  out += "<table>";
  row(out, "th",
      {"workload", "answered", "failed", "first token, ms: p50 / p99 / max", "between tokens, ms",
       "total, ms", "prompt tokens", "computed", "cache without limits"});
  for (const Group& g : pass.groups) {
    row(out, "td",
        {g.name, std::to_string(g.answered), errors_of(g), three(g.first_ms), three(g.gap_ms),
         three(g.total_ms), std::to_string(g.prompt_tokens), std::to_string(g.computed),
         g.needed ? std::to_string(*g.needed) : "-"});
  }
  out += "</table>\n";
}

/// Marks of a logarithmic axis: 1, 2 and 5 of every power of ten that the values span.
std::vector<std::pair<double, std::string>> log_marks(double least, double most) {
  std::vector<std::pair<double, std::string>> marks;
  const auto first = static_cast<int>(std::floor(std::log10(least)));
  const auto last = static_cast<int>(std::floor(std::log10(most)));
  for (int power = first; power <= last; ++power) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double x = step * std::pow(10, power);
      const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(x) + 1e-9)));
      if (x >= least * 0.999 && x <= most * 1.001) marks.emplace_back(x, fixed(x, decimals));
    }
  }
  return marks;
}

/// Percent of requests within a time, for each workload of each pass; the slowest one is drawn.
std::string within(const Report& report, const char* title, const Spread Group::*spread) {
  constexpr double kLeastMs = 0.001;
  Chart chart;
  chart.title = title;
  chart.x_label = "milliseconds (logarithmic)";
  chart.y_label = "% within";
  chart.log_x = true;
  double least = 1e300, most = 0;
  for (const Pass& pass : report.passes) {
    for (const Group& group : pass.groups) {
      const std::vector<double>& values = (group.*spread).ascending;
      if (values.empty()) continue;
      ChartLine& line = chart.lines.emplace_back();
      line.name = report.passes.size() > 1 ? group.name + ", " + pass.name : group.name;
      line.bold = group.name == "all";
      const std::size_t step = std::max<std::size_t>(1, values.size() / kMostPoints);
      for (std::size_t i = (values.size() - 1) % step; i < values.size(); i += step) {
        const double x = std::max(values[i], kLeastMs);
        line.points.emplace_back(
            x, 100 * static_cast<double>(i + 1) / static_cast<double>(values.size()));
      }
      least = std::min(least, line.points.front().first);
      most = std::max(most, line.points.back().first);
    }
  }
  if (chart.lines.empty()) return "";
  chart.x_marks = log_marks(least, most);
  return engine::render_chart(chart) + "\n";
}

/// Each request as a dot: when it was to be sent, and how long its first token took.
std::string time_line(const Pass& pass) {
  Chart chart;
  chart.title = "Requests over time, " + pass.name;
  chart.x_label = "seconds since the pass began";
  chart.y_label = "ms to the first token";
  for (const Kind kind : kKinds) {
    ChartLine line;
    line.name = to_string(kind);
    line.dots = true;
    for (const Record& r : pass.records) {
      if (r.planned.kind != kind || !r.answered() || !r.first) continue;
      line.points.emplace_back(r.intended, 1e3 * r.to_first());
    }
    if (!line.points.empty()) chart.lines.push_back(std::move(line));
  }
  return chart.lines.empty() ? "" : engine::render_chart(chart) + "\n";
}

/// Sums over the requests so far.
std::string tokens_over_requests(const Pass& pass) {
  Chart chart;
  chart.title = "Prompt tokens computed, " + pass.name;
  chart.x_label = "requests, in the order of sending";
  chart.y_label = "tokens so far";
  ChartLine computed{"computed", {}, true, false}, needed{"cache without limits", {}, false, false};
  double requests = 0, computed_sum = 0, needed_sum = 0;
  for (const Record& r : pass.records) {
    if (r.warm_up || !r.answered()) continue;
    computed_sum += static_cast<double>(r.computed());
    needed_sum += static_cast<double>(r.needed.value_or(0));
    computed.points.emplace_back(++requests, computed_sum);
    needed.points.emplace_back(requests, needed_sum);
  }
  if (computed.points.empty()) return "";
  chart.lines.push_back(std::move(computed));
  if (!pass.groups.empty() && pass.groups.front().needed) chart.lines.push_back(std::move(needed));
  return engine::render_chart(chart) + "\n";
}

}  // namespace

std::string report_html(const Report& report) {
  std::string out;
  engine::open_page(out, "Load on a server");
  out += "<table>";
  row(out, "td", {"server", report.server});
  row(out, "td", {"model", report.model});
  for (const auto& [name, value] : report.facts) row(out, "td", {name, value});
  row(out, "td", {"answers to a prompt answered before", std::to_string(report.compared)});
  row(out, "td", {"of these different", std::to_string(report.different)});
  row(out, "td", {"ended", report.ended});
  out += "</table>\n";
  for (const Pass& pass : report.passes) {
    out += "<h2>Figures, " + pass.name + ": " + fixed(pass.seconds, 2) + " s" +
           (pass.dropped ? ", the cache dropped before" : "") + "</h2>\n";
    table(out, pass);
  }
  out += "<h2>Latency</h2>\n" + within(report, "Time to the first token", &Group::first_ms) +
         within(report, "Time between tokens", &Group::gap_ms) +
         within(report, "Time to the whole answer", &Group::total_ms);
  for (const Pass& pass : report.passes) out += time_line(pass);
  out += "<h2>Tokens</h2>\n";
  for (const Pass& pass : report.passes) out += tokens_over_requests(pass);
  engine::close_page(out);
  return out;
}

}  // namespace cairn::load
