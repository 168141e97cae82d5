// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/report_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/simulate/report_layout.hpp"

namespace cairn::engine {
namespace {

using Point = std::pair<double, double>;

// Pixels.
constexpr double kWidth = 860, kLeft = 70, kTop = 44, kPlotWidth = 560, kBelow = 56;
constexpr double kLegendRow = 18, kLeastPlotHeight = 280, kCharacter = 7;

// Middle tones: at least 3:1 against white and against near-black.
constexpr std::array kColours = {"#3b7dd8", "#d9622b", "#2a9d5c", "#c8468c", "#8a6fd1",
                                 "#a17a00", "#10929e", "#828282", "#d9453d", "#67872a"};
constexpr std::array kDashes = {"", "7 4", "2 3", "10 3 2 3"};

/// The least of 1, 2, 2.5, 5 times a power of ten that is at least x.
double rounded_up(double x) {
  if (!(x > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(x)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (step * power >= x * (1 - 1e-12)) return step * power;
  }
  return 10 * power;
}

std::string short_number(double x) {
  if (x != 0 && std::abs(x) < 0.01) return fixed(x, 4);
  for (int decimals = 0; decimals < 2; ++decimals) {
    if (std::abs(x - std::round(x * std::pow(10, decimals)) / std::pow(10, decimals)) < 1e-9) {
      return fixed(x, decimals);
    }
  }
  return fixed(x, 2);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    const double rows = static_cast<double>(chart.lines.size() + (chart.front.empty() ? 0 : 1));
    plot_height_ = std::max(kLeastPlotHeight, rows * kLegendRow);
    find_ranges();
  }

  std::string draw() {
    open();
    axes();
    if (!chart_.front.empty()) {
      path(chart_.front, "stroke=\"currentColor\" stroke-opacity=\".18\" stroke-width=\"11\"");
    }
    for (const bool bold : {false, true}) {  // bold ones on top
      for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
        if (chart_.lines[i].bold == bold) line(i);
      }
    }
    legend();
    return std::move(out_) + "</svg>";
  }

 private:
  double scaled(double x) const { return chart_.log_x ? std::log(x) : x; }
  double px(double x) const { return kLeft + kPlotWidth * (scaled(x) - low_) / (high_ - low_); }
  double py(double y) const { return kTop + plot_height_ * (1 - y / top_); }

  void find_ranges() {
    bool any = false;
    double most = 0;
    const auto take = [&](const Point& p) {
      const double x = scaled(p.first);
      low_ = any ? std::min(low_, x) : x;
      high_ = any ? std::max(high_, x) : x;
      most = std::max(most, p.second);
      any = true;
    };
    for (const ChartLine& line : chart_.lines)
      std::for_each(line.points.begin(), line.points.end(), take);
    for (const auto& [x, name] : chart_.x_marks) take({x, 0});
    if (!(high_ > low_)) {  // one budget only: in the middle
      low_ -= 1;
      high_ = low_ + 2;
    }
    step_ = rounded_up(most / 5);
    top_ = step_ * std::max(1.0, std::ceil(most / step_ - 1e-9));
  }

  void text(double x, double y, const char* anchor, std::string_view content,
            const char* more = "") {
    out_ += "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor +
            "\"" + more + ">";
    append_markup(out_, content);
    out_ += "</text>";
  }
  void stroke(double x1, double y1, double x2, double y2, const std::string& style) {
    out_ += "<line x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" + fixed(x2, 1) +
            "\" y2=\"" + fixed(y2, 1) + "\" " + style + "/>";
  }
  void path(const std::vector<Point>& points, const std::string& style) {
    out_ += "<polyline fill=\"none\" stroke-linejoin=\"round\" " + style + " points=\"";
    for (const auto& [x, y] : points) out_ += fixed(px(x), 1) + "," + fixed(py(y), 1) + " ";
    out_ += "\"/>";
  }

  void open() {
    const double height = kTop + plot_height_ + kBelow;
    out_ += "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
            fixed(kWidth, 0) + " " + fixed(height, 0) + "\" role=\"img\" width=\"" +
            fixed(kWidth, 0) +
            "\" font-family=\"system-ui, sans-serif\" font-size=\"12\"><style>"
            ".chart{color:#222;background:#fff}.chart text{fill:currentColor}"
            "@media(prefers-color-scheme:dark){.chart{color:#ddd;background:#161616}}</style>"
            "<title>";
    append_markup(out_, chart_.title);
    out_ += "</title>";
    text(kLeft, 22, "start", chart_.title, " font-size=\"15\" font-weight=\"600\"");
  }

  void axes() {
    const std::string faint = "stroke=\"currentColor\" stroke-opacity=\".15\"";
    const double bottom = kTop + plot_height_, right = kLeft + kPlotWidth;
    for (int i = 0; i * step_ <= top_ * (1 + 1e-9); ++i) {
      const double y = i * step_;
      stroke(kLeft, py(y), right, py(y), faint);
      text(kLeft - 8, py(y) + 4, "end", short_number(y));
    }
    double free_from = 0;
    for (const auto& [x, name] : marks()) {
      stroke(px(x), kTop, px(x), bottom, faint);
      const double half = kCharacter * static_cast<double>(name.size() + 1) / 2;
      if (px(x) - half < free_from) continue;  // would run into the mark before
      text(px(x), bottom + 18, "middle", name);
      free_from = px(x) + half;
    }
    stroke(kLeft, bottom, right, bottom, "stroke=\"currentColor\"");
    text(kLeft + kPlotWidth / 2, bottom + 42, "middle", chart_.x_label);
    const std::string middle = fixed(kTop + plot_height_ / 2, 1);
    text(16, kTop + plot_height_ / 2, "middle", chart_.y_label,
         (" transform=\"rotate(-90 16 " + middle + ")\"").c_str());
  }

  std::vector<std::pair<double, std::string>> marks() const {
    if (!chart_.x_marks.empty() || chart_.log_x) return chart_.x_marks;
    std::vector<std::pair<double, std::string>> even;
    const double step = rounded_up((high_ - low_) / 5);
    const double first = std::ceil(low_ / step) * step;
    for (int i = 0; first + i * step <= high_ + 1e-9 * step; ++i) {
      even.emplace_back(first + i * step, short_number(first + i * step));
    }
    return even;
  }

  const char* colour(std::size_t i) const {
    return chart_.lines[i].bold ? "currentColor" : kColours[i % kColours.size()];
  }
  std::string style_of(std::size_t i) const {
    const bool bold = chart_.lines[i].bold;
    const char* dash = bold ? "" : kDashes[(i / kColours.size()) % kDashes.size()];
    std::string style =
        std::string("stroke=\"") + colour(i) + "\" stroke-width=\"" + (bold ? "3.5" : "1.6") + "\"";
    if (*dash) style += std::string(" stroke-dasharray=\"") + dash + "\"";
    return style;
  }

  void dot(double x, double y, std::size_t i) {
    out_ += "<circle cx=\"" + fixed(x, 1) + "\" cy=\"" + fixed(y, 1) +
            "\" r=\"2.2\" fill-opacity=\".7\" fill=\"" + colour(i) + "\"/>";
  }

  void line(std::size_t i) {
    const ChartLine& line = chart_.lines[i];
    if (line.dots) {
      for (const auto& [x, y] : line.points) dot(px(x), py(y), i);
      return;
    }
    path(line.points, style_of(i));
    constexpr std::size_t kMostDots = 40;
    if (line.points.size() > kMostDots) return;
    for (const auto& [x, y] : line.points) {
      out_ += "<circle cx=\"" + fixed(px(x), 1) + "\" cy=\"" + fixed(py(y), 1) +
              "\" r=\"3\" fill=\"" + colour(i) + "\"><title>";
      append_markup(out_, line.name + ": " + short_number(y));
      out_ += "</title></circle>";
    }
  }

  void legend() {
    const double x = kLeft + kPlotWidth + 24;
    double y = kTop + 8;
    const auto name = [&](const std::string& of) {
      text(x + 36, y + 4, "start", of);
      y += kLegendRow;
    };
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
      chart_.lines[i].dots ? dot(x + 14, y, i) : stroke(x, y, x + 28, y, style_of(i));
      name(chart_.lines[i].name);
    }
    if (!chart_.front.empty()) {
      stroke(x, y, x + 28, y, "stroke=\"currentColor\" stroke-opacity=\".18\" stroke-width=\"11\"");
      name(chart_.front_name);
    }
  }

  const Chart& chart_;
  std::string out_;
  double plot_height_ = 0;
  double low_ = 0, high_ = 0;  // of scaled x
  double top_ = 1, step_ = 1;  // of y
};

}  // namespace

std::string render_chart(const Chart& chart) { return Drawing(chart).draw(); }

void append_markup(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < ' ' || c == 0x7F ? ' ' : c;
    }
  }
}

}  // namespace cairn::engine
