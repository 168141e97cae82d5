// SPDX-License-Identifier: Apache-2.0
#include "cli/load/spread.hpp"

#include <algorithm>
#include <cmath>

namespace cairn::load {
namespace {

/// The next power of 1 + kStep.
double rounded_up(double value) {
  constexpr double kLeast = 1e-6;
  const double step = std::log1p(Spread::kStep);
  return std::exp(step * std::ceil(std::log(std::max(value, kLeast)) / step));
}

}  // namespace

void Spread::add(double value) {
  most_ = count_ == 0 ? value : std::max(most_, value);
  sum_ += value;
  ++count_;
  ++counts_[exact_ ? value : rounded_up(value)];
  if (!exact_ || counts_.size() <= kExact) return;
  exact_ = false;
  std::map<double, std::int64_t> rounded;
  for (const auto& [each, times] : counts_) rounded[rounded_up(each)] += times;
  counts_ = std::move(rounded);
}

double Spread::percentile(double share) const {
  const double rank = std::max(1.0, std::ceil(share * static_cast<double>(count_) - 1e-9));
  std::int64_t seen = 0;
  for (const auto& [value, times] : counts_) {
    seen += times;
    if (static_cast<double>(seen) >= rank) return std::min(value, most_);
  }
  return most_;
}

std::vector<std::pair<double, std::int64_t>> Spread::within(std::size_t points) const {
  std::vector<std::pair<double, std::int64_t>> out;
  const std::size_t step = std::max<std::size_t>(1, counts_.size() / points);
  std::int64_t seen = 0;
  std::size_t left = counts_.size();
  for (const auto& [value, times] : counts_) {
    seen += times;
    --left;
    if (left % step == 0) out.emplace_back(std::min(value, most_), seen);
  }
  return out;
}

}  // namespace cairn::load
