// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace cairn::load {

/// How values are spread, in memory that does not grow with their number. Number, mean and most are
/// exact; percentiles are until there are more than kExact different values or it was to shrink,
/// and from then on at most error() too large. All 0 for no values. One owner.
class Spread {
 public:
  static constexpr std::size_t kExact = 4096;
  static constexpr double kStep = 0.005;  // the first error

  void add(double value);
  std::int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool exact() const { return grain_ == 0; }
  double error() const;  // of a percentile, as a share of it; 0: exact
  std::uint64_t bytes() const;
  /// To about so many bytes, those of some dozen values at least: the error doubles until it fits.
  void shrink(std::uint64_t most_bytes);
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double most() const { return most_; }
  /// The least value that at least `share` (0 to 1) of all do not exceed.
  double percentile(double share) const;
  /// Ascending values and how many do not exceed each: about `points`, the last one is the most.
  std::vector<std::pair<double, std::int64_t>> within(std::size_t points) const;

 private:
  void coarsen();

  std::map<double, std::int64_t> counts_;  // of values, rounded up once not exact
  std::int64_t count_ = 0;
  double sum_ = 0, most_ = 0;
  int grain_ = 0;  // values are powers of (1 + kStep)^grain_; 0: as they came
};

}  // namespace cairn::load
