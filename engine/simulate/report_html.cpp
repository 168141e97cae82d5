// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "engine/simulate/report.hpp"
#include "engine/simulate/report_chart.hpp"
#include "engine/simulate/report_layout.hpp"
#include "engine/simulate/report_page.hpp"

namespace cairn::engine {
namespace {

using Number = std::function<double(const SimulatorResult&)>;

double percent(const SimulatorResult& r) { return 100 * r.recomputed_share(); }

double ms_per_request(const SimulatorResult& r) {
  return r.requests == 0 ? 0 : r.solve_ms_total / static_cast<double>(r.requests);
}

/// A line for each policy over the budgets.
Chart over_bytes(const ReportGrid& grid, const char* title, const char* y_label,
                 const Number& number) {
  Chart chart;
  chart.title = title;
  chart.x_label = "bytes for states and KV (logarithmic)";
  chart.y_label = y_label;
  chart.log_x = true;
  for (const std::uint64_t bytes : grid.budgets) {
    chart.x_marks.emplace_back(static_cast<double>(bytes), budget_label(bytes));
  }
  for (const std::string& policy : grid.policies) {
    ChartLine& line = chart.lines.emplace_back();
    line.name = policy;
    line.bold = policy == "forest";
    for (const std::uint64_t bytes : grid.budgets) {
      if (const SimulatorResult* r = grid.cell(policy, bytes)) {
        line.points.emplace_back(static_cast<double>(bytes), number(*r));
      }
    }
  }
  return chart;
}

/// What no policy betters: the least share within each budget or a smaller one.
std::vector<std::pair<double, double>> pareto_front(std::span<const SimulatorResult> results,
                                                    const ReportGrid& grid) {
  std::vector<std::pair<double, double>> front;
  for (const std::uint64_t bytes : grid.budgets) {
    const SimulatorResult* best = strongest(results, bytes);
    if (!best) continue;
    const double share =
        front.empty() ? percent(*best) : std::min(front.back().second, percent(*best));
    front.emplace_back(static_cast<double>(bytes), share);
  }
  return front;
}

void share_table(std::string& out, std::span<const SimulatorResult> results,
                 const ReportGrid& grid) {
  out += "<table><tr><th>percent recomputed</th>";
  for (const std::uint64_t bytes : grid.budgets) append_cell(out, "th", budget_label(bytes));
  out += "</tr>";
  for (const std::string& policy : grid.policies) {
    out += "<tr>";
    append_cell(out, "td", policy);
    for (const std::uint64_t bytes : grid.budgets) {
      const SimulatorResult* r = grid.cell(policy, bytes);
      append_cell(out, "td", r ? fixed(percent(*r), 2) : "-", r && r == strongest(results, bytes));
    }
    out += "</tr>";
  }
  out += "<tr><th>strongest</th>";
  for (const std::uint64_t bytes : grid.budgets) {
    const SimulatorResult* best = strongest(results, bytes);
    append_cell(out, "th", best ? best->policy : "-");
  }
  out += "</tr></table>\n";
}

/// Bytes held while the trace went by, within one budget.
Chart held_over_time(const ReportGrid& grid, std::uint64_t bytes) {
  constexpr double kGigabyte = 1e9;
  Chart chart;
  chart.title = "Bytes held within " + budget_label(bytes);
  chart.x_label = "requests";
  chart.y_label = "GB held";
  for (const std::string& policy : grid.policies) {
    const SimulatorResult* r = grid.cell(policy, bytes);
    if (!r) continue;
    ChartLine& line = chart.lines.emplace_back();
    line.name = policy;
    line.bold = policy == "forest";
    for (const SimulatorResult::Held& held : r->held) {
      line.points.emplace_back(static_cast<double>(held.request),
                               static_cast<double>(held.bytes) / kGigabyte);
    }
  }
  return chart;
}

void head(std::string& out, const SimulatorResult& any, const ReportInfo& info) {
  open_page(out, "Simulation of " + info.trace);
  out += "<p>" + std::to_string(any.requests) + " requests, " + std::to_string(any.prompt_tokens) +
         " prompt tokens, of which " + std::to_string(any.reusable_tokens) +
         " had been computed before. A state takes " + std::to_string(info.state_bytes) +
         " bytes, KV " + std::to_string(info.kv_bytes_per_token) +
         " bytes a token; all policies have equal bytes "
         "for both.</p>\n";
}

}  // namespace

std::string result_html(std::span<const SimulatorResult> results, const ReportInfo& info) {
  const ReportGrid grid(results);
  std::string out;
  head(out, results.empty() ? SimulatorResult{} : results.front(), info);
  out += "<h2>Reusable tokens recomputed</h2>\n";
  Chart shares = over_bytes(grid, "Reusable tokens recomputed over bytes", "% recomputed", percent);
  shares.front = pareto_front(results, grid);
  shares.front_name = "Pareto front";
  out += render_chart(shares) + "\n";
  share_table(out, results, grid);
  out += "<h2>States written</h2>\n" +
         render_chart(
             over_bytes(grid, "States written a request", "states a request", states_per_request)) +
         "\n<h2>Bytes held</h2>\n";
  for (const std::uint64_t bytes : grid.budgets) {
    out += render_chart(held_over_time(grid, bytes)) + "\n";
  }
  out += "<h2>Time to decide</h2>\n" +
         render_chart(over_bytes(grid, "Policy and planner, a request", "milliseconds a request",
                                 ms_per_request)) +
         "\n";
  close_page(out);
  return out;
}

}  // namespace cairn::engine
