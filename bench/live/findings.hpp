// SPDX-License-Identifier: Apache-2.0
// What was measured, beside its limit.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::bench {

struct Finding {
  std::string what;
  double value = 0;
  std::string unit;               // "" for a ratio or a count
  std::optional<double> at_most;  // none: told, not judged

  bool missed() const { return at_most && !(value <= *at_most); }
};

using Findings = std::vector<Finding>;

/// The value below which `share` (0..1) of all lie, between neighbours by proportion; 0 for none.
double quantile(std::vector<double> values, double share);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Lines of a Markdown table: what, value, limit, verdict.
std::string to_markdown(const std::string& title, const Findings& findings);
/// An array of objects: what, value, unit, at_most (null without a limit), met.
std::string to_json(const Findings& findings);

}  // namespace cairn::bench
