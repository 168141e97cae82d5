// SPDX-License-Identifier: Apache-2.0
// Line charts as SVG that stands alone: no scripts, readable on light and dark ground.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::engine {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending x
  bool bold = false;                              // thick, in the colour of the text
  bool dots = false;                              // the points alone
};

struct Chart {
  std::string title, x_label, y_label;  // labels name their unit
  bool log_x = false;                   // every x above 0
  /// Where the x axis is marked, ascending, and how; empty: five even marks.
  std::vector<std::pair<double, std::string>> x_marks;
  std::vector<ChartLine> lines;
  /// Drawn as a band behind the lines, ascending x; empty: none.
  std::vector<std::pair<double, double>> front;
  std::string front_name;
};

/// An <svg> element. The y axis starts at 0. Lines beyond the palette repeat its colours dashed.
std::string render_chart(const Chart& chart);

/// Appends text so that XML and HTML read it back; control characters become spaces.
void append_markup(std::string& out, std::string_view text);

}  // namespace cairn::engine
