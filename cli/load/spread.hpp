// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace cairn::load {

/// The least of the ascending values that at least `share` (0 to 1) of all do not exceed; 0 for
/// none.
inline double percentile(const std::vector<double>& ascending, double share) {
  if (ascending.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(ascending.size()) - 1e-9);
  return ascending[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

/// How values are spread; all 0 for none.
struct Spread {
  explicit Spread(std::vector<double> values = {}) : ascending(std::move(values)) {
    std::sort(ascending.begin(), ascending.end());
    if (ascending.empty()) return;
    const double sum = std::accumulate(ascending.begin(), ascending.end(), 0.0);
    mean = sum / static_cast<double>(ascending.size());
    p50 = percentile(ascending, 0.5);
    p90 = percentile(ascending, 0.9);
    p99 = percentile(ascending, 0.99);
    most = ascending.back();
  }
  std::vector<double> ascending;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
};

}  // namespace cairn::load
