// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same with every standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace cairn::load {

/// From 0 to less than 1, 53 bits.
inline double unit(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}

/// From 0 to less than `end`, which is above 0 and far below 2^53.
inline std::int64_t below(std::mt19937_64& random, std::int64_t end) {
  return static_cast<std::int64_t>(unit(random) * static_cast<double>(end));
}

/// Arrivals of a Poisson process: each call gives the seconds from its start to the next one. One
/// owner.
class Arrivals {
 public:
  /// `rate` a second, above 0.
  Arrivals(double rate, std::uint64_t seed) : rate_(rate), random_(seed) {}
  double next() { return at_ += -std::log1p(-unit(random_)) / rate_; }

 private:
  double rate_;
  std::mt19937_64 random_;
  double at_ = 0;
};

}  // namespace cairn::load
