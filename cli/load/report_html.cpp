// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cli/load/kept.hpp"
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

// Of a curve, about, and of a kind of dots: more would not be seen.
constexpr std::size_t kMostPoints = 400, kMostDots = 500;
constexpr std::size_t kMostMessage = 120;  // bytes of what was said, in a cell

void row(std::string& out, const char* tag, const std::vector<std::string>& cells) {
  out += "<tr>";
  for (const std::string& cell : cells) append_cell(out, tag, cell);
  out += "</tr>";
}

std::string three(const Spread& spread) {
  if (spread.empty()) return "-";
  return fixed(spread.percentile(0.5), 1) + " / " + fixed(spread.percentile(0.99), 1) + " / " +
         fixed(spread.most(), 1);
}

std::string errors_of(const Group& group) {
  std::string out;
  for (const auto& [kind, count] : group.errors) {
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
    out += " (" + group.said.at(kind).substr(0, kMostMessage) + ")";
  }
  return out.empty() ? "none" : out;
}

std::string told(const std::optional<std::int64_t>& tokens) {
  return tokens ? std::to_string(*tokens) : "not reported";
}

void table(std::string& out, const Pass& pass) {
  out += "<table>";
  row(out, "th",
      {"workload", "answered", "failed", "first token, ms: p50 / p99 / max", "between tokens, ms",
       "total, ms", "prompt tokens", "computed", "cache without limits"});
  for (const Group& g : pass.groups) {
    row(out, "td",
        {g.name, std::to_string(g.answered), errors_of(g), three(g.first_ms), three(g.gap_ms),
         three(g.total_ms), told(g.prompt_tokens), told(g.computed),
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
      const Spread& values = group.*spread;
      if (values.empty()) continue;
      ChartLine& line = chart.lines.emplace_back();
      line.name = report.passes.size() > 1 ? group.name + ", " + pass.name : group.name;
      line.bold = group.name == "all";
      for (const auto& [value, count] : values.within(kMostPoints)) {
        line.points.emplace_back(
            std::max(value, kLeastMs),
            100 * static_cast<double>(count) / static_cast<double>(values.count()));
      }
      least = std::min(least, line.points.front().first);
      most = std::max(most, line.points.back().first);
    }
  }
  if (chart.lines.empty()) return "";
  chart.x_marks = log_marks(least, most);
  return engine::render_chart(chart) + "\n";
}

/// Of many dots as few as are seen, the highest of neighbours.
void thin(ChartLine& line) {
  std::stable_sort(line.points.begin(), line.points.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  while (line.points.size() > kMostDots) {
    halve(line.points, [](const auto& a, const auto& b) { return a.second < b.second; });
  }
}

/// Requests as dots: when each was to be sent, and how long its first token took or, where it
/// failed, how long that did.
std::string time_line(const Pass& pass) {
  Chart chart;
  chart.title = "Requests over time, " + pass.name;
  chart.x_label = "seconds since the pass began";
  chart.y_label = "ms to the first token";
  ChartLine failed;
  failed.name = "failed";
  failed.dots = failed.bold = true;
  for (const Kind kind : kKinds) {
    ChartLine line;
    line.name = to_string(kind);
    line.dots = true;
    for (const Record& r : pass.records) {
      if (r.warm_up || r.planned.kind != kind || (r.answered() && !r.first)) continue;
      (r.answered() ? line : failed).points.emplace_back(r.intended, 1e3 * r.to_first());
    }
    thin(line);
    if (!line.points.empty()) chart.lines.push_back(std::move(line));
  }
  thin(failed);
  if (!failed.points.empty()) chart.lines.push_back(std::move(failed));
  return chart.lines.empty() ? "" : engine::render_chart(chart) + "\n";
}

/// Sums over the requests so far; nothing where not all are there or the server does not tell.
std::string tokens_over_requests(const Pass& pass) {
  const Group* const all = pass.groups.empty() ? nullptr : &pass.groups.front();
  if (!pass.every || !all || !all->computed || all->answered == 0) return "";
  Chart chart;
  chart.title = "Prompt tokens computed, " + pass.name;
  chart.x_label = "requests, in the order of sending";
  chart.y_label = "tokens so far";
  ChartLine computed{"computed", {}, true, false}, needed{"cache without limits", {}, false, false};
  const std::int64_t step = std::max<std::int64_t>(1, all->answered / std::int64_t{kMostPoints});
  std::int64_t requests = 0, computed_sum = 0, needed_sum = 0;
  for (const Record& r : pass.records) {
    if (r.warm_up || !r.answered()) continue;
    computed_sum += r.computed().value_or(0);
    needed_sum += r.needed.value_or(0);
    if ((all->answered - ++requests) % step != 0) continue;
    const auto x = static_cast<double>(requests);
    computed.points.emplace_back(x, static_cast<double>(computed_sum));
    needed.points.emplace_back(x, static_cast<double>(needed_sum));
  }
  chart.lines.push_back(std::move(computed));
  if (all->needed) chart.lines.push_back(std::move(needed));
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
  if (report.not_compared > 0) {
    row(out, "td", {"not kept to compare with", std::to_string(report.not_compared)});
  }
  row(out, "td", {"ended", report.ended});
  out += "</table>\n";
  if (const std::string note = exactness(report); !note.empty()) {
    out += "<p>";
    engine::append_markup(out, note);
    out += "</p>\n";
  }
  for (const Pass& pass : report.passes) {
    out += "<h2>Figures, " + pass.name + "</h2>\n<p>";
    engine::append_markup(out, summary(pass));
    out += "</p>\n";
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
