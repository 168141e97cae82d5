// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/spacings.hpp"

#include <algorithm>
#include <cmath>

namespace cairn::engine {
namespace {

// N (i / M)^2, exact while N i^2 fits a double's 53 bits.
double square_share(std::int64_t length, std::int64_t i, std::int64_t count) {
  const auto x = static_cast<double>(i);
  const auto m = static_cast<double>(count);
  return static_cast<double>(length) * x * x / (m * m);
}

// N / 2^i; nothing is left of it after 62 halvings.
std::int64_t halved(std::int64_t length, std::int64_t i) { return i > 62 ? 0 : length >> i; }
std::int64_t halved_up(std::int64_t length, std::int64_t i) {
  const std::int64_t down = halved(length, i);
  return i <= 62 && (down << i) == length ? down : down + 1;
}

std::int64_t position(Spacing spacing, std::int64_t n, std::int64_t i, std::int64_t count) {
  switch (spacing) {
    case Spacing::none:
      return 0;
    case Spacing::last:
      return n;
    case Spacing::balanced:
      return i * n / (count + 1);
    case Spacing::block:
      return i * (n / (count + 1) + 1);
    case Spacing::log:
      return halved(n, i);
    case Spacing::log_end:
      return n - halved_up(n, i);
    case Spacing::sqrt:
      return static_cast<std::int64_t>(std::floor(square_share(n, i, count)));
    case Spacing::sqrt_end:
      return n - static_cast<std::int64_t>(std::ceil(square_share(n, count - i, count)));
  }
  return 0;
}

}  // namespace

const char* to_string(Spacing spacing) {
  switch (spacing) {
    case Spacing::none:
      return "none";
    case Spacing::last:
      return "last";
    case Spacing::balanced:
      return "balanced";
    case Spacing::block:
      return "block";
    case Spacing::log:
      return "log";
    case Spacing::log_end:
      return "log_end";
    case Spacing::sqrt:
      return "sqrt";
    case Spacing::sqrt_end:
      return "sqrt_end";
  }
  return "none";
}

std::vector<std::int64_t> spaced_positions(Spacing spacing, std::int64_t length, std::int64_t count,
                                           std::int64_t grain) {
  std::vector<std::int64_t> found;
  if (spacing == Spacing::none) return found;
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::int64_t at = position(spacing, length, i, count) / grain * grain;
    if (at > 0 && at <= length) found.push_back(at);
    if (spacing == Spacing::last) break;
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace cairn::engine
