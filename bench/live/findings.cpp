// SPDX-License-Identifier: Apache-2.0
#include "bench/live/findings.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/json_text.hpp"

namespace cairn::bench {
namespace {

std::string figure(double value, const std::string& unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.5g", value);
  return unit.empty() ? text : text + (" " + unit);
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

std::string to_markdown(const std::string& title, const Findings& findings) {
  std::string out = "| " + title + " | measured | at most | |\n|--|--|--|--|\n";
  for (const Finding& f : findings) {
    out += "| " + f.what + " | " + figure(f.value, f.unit) + " | " +
           (f.at_most ? figure(*f.at_most, f.unit) : std::string("-")) + " | " +
           (f.missed()  ? "**missed**"
            : f.at_most ? "met"
                        : "") +
           " |\n";
  }
  return out;
}

std::string to_json(const Findings& findings) {
  JsonWriter json;
  json.begin_array();
  for (const Finding& f : findings) {
    json.begin_object().key("what").string(f.what).key("value").number(f.value);
    json.key("unit").string(f.unit).key("at_most");
    if (f.at_most) {
      json.number(*f.at_most);
    } else {
      json.null();
    }
    json.key("met").boolean(!f.missed()).end_object();
  }
  json.end_array();
  return json.take();
}

}  // namespace cairn::bench
