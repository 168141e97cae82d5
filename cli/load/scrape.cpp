// SPDX-License-Identifier: Apache-2.0
#include "cli/load/scrape.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace cairn::load {

Series read_series(std::string_view page) {
  Series out;
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(line.size() + 1, page.size()));
    if (line.starts_with('#')) continue;
    // Labels are quoted and may hold blanks.
    const std::size_t labels = line.rfind('}');
    const std::size_t end = labels == std::string_view::npos ? line.find(' ') : labels + 1;
    if (end >= line.size()) continue;
    const std::string_view series = line.substr(0, end);
    const std::string_view name = series.substr(0, series.find('{'));
    if (!name.ends_with("_total") && !name.ends_with("_sum") && !name.ends_with("_count")) continue;
    const std::string_view number = line.substr(end + 1);
    double value = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc{}) {
      out[std::string(series)] = value;
    }
  }
  return out;
}

Series growth(const Series& before, const Series& after) {
  Series out;
  if (before.empty()) return out;
  for (const auto& [name, value] : after) {
    const auto earlier = before.find(name);
    const double grown = value - (earlier == before.end() ? 0 : earlier->second);
    if (grown > 0) out[name] = grown;
  }
  return out;
}

double sum_of(const Series& series, std::string_view name) {
  double sum = 0;
  for (const auto& [each, value] : series) {
    if (each.substr(0, each.find('{')) == name) sum += value;
  }
  return sum;
}

}  // namespace cairn::load
