// SPDX-License-Identifier: Apache-2.0
// What the text and the HTML report share: which policies and budgets there are, and their cells.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/simulate/report.hpp"

namespace cairn::engine {

struct ReportGrid {
  explicit ReportGrid(std::span<const SimulatorResult> results);
  std::vector<std::string> policies;   // in order of appearance
  std::vector<std::uint64_t> budgets;  // ascending
  /// Null where that policy was not run within that budget.
  const SimulatorResult* cell(const std::string& policy, std::uint64_t bytes) const;

 private:
  std::span<const SimulatorResult> results_;
};

/// `decimals` digits after the point.
std::string fixed(double x, int decimals);
double states_per_request(const SimulatorResult& result);

}  // namespace cairn::engine
