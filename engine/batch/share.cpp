// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/share.hpp"

#include <algorithm>
#include <numeric>

namespace cairn::engine {

std::span<const std::int32_t> PrefillShare::split(std::span<const PrefillClaim> claims,
                                                  std::int32_t budget) {
  shares_.assign(claims.size(), 0);
  order_.resize(claims.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::int32_t for_oldest = (budget + 1) / 2;
  for (std::size_t i = 0; i < claims.size() && for_oldest > 0; ++i) {
    shares_[i] = std::min(claims[i].rows, for_oldest);
    for_oldest -= shares_[i];
    budget -= shares_[i];
  }
  std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t x, std::int32_t y) {
    return claims[static_cast<std::size_t>(x)].left < claims[static_cast<std::size_t>(y)].left;
  });
  for (const std::int32_t at : order_) {
    const auto i = static_cast<std::size_t>(at);
    const std::int32_t more = std::min(claims[i].rows - shares_[i], budget);
    shares_[i] += more;
    budget -= more;
  }
  return shares_;
}

}  // namespace cairn::engine
