// SPDX-License-Identifier: Apache-2.0
#include "cli/load/spread.hpp"

#include <algorithm>
#include <cmath>

namespace cairn::load {
namespace {

constexpr std::uint64_t kValueBytes = 64;  // of a node of a map
constexpr std::uint64_t kFewest = 16;      // values that are always kept

/// The next power of (1 + kStep)^grain; one that is a power already stays.
double rounded_up(double value, int grain) {
  constexpr double kLeast = 1e-6, kSame = 1e-9;
  const double step = grain * std::log1p(Spread::kStep);
  return std::exp(step * std::ceil(std::log(std::max(value, kLeast)) / step - kSame));
}

}  // namespace

void Spread::add(double value) {
  most_ = count_ == 0 ? value : std::max(most_, value);
  sum_ += value;
  ++count_;
  ++counts_[exact() ? value : rounded_up(value, grain_)];
  if (exact() && counts_.size() > kExact) coarsen();
}

// Powers of a grain are among those of half of it: an error does not add to the one before.
void Spread::coarsen() {
  grain_ = std::max(1, 2 * grain_);
  std::map<double, std::int64_t> rounded;
  for (const auto& [each, times] : counts_) rounded[rounded_up(each, grain_)] += times;
  counts_ = std::move(rounded);
}

double Spread::error() const {
  return grain_ <= 1 ? grain_ * kStep : std::pow(1 + kStep, grain_) - 1;
}

std::uint64_t Spread::bytes() const { return kValueBytes * counts_.size(); }

void Spread::shrink(std::uint64_t most_bytes) {
  while (bytes() > std::max(most_bytes, kFewest * kValueBytes)) coarsen();
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
