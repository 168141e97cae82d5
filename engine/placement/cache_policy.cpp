// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/cache_policy.hpp"

#include <algorithm>

namespace cairn::engine {

void tidy(const RequestView& request, std::vector<Placement>& places) {
  std::erase_if(places, [&](const Placement& p) {
    return p.position <= request.resume || p.position >= request.length;
  });
  std::sort(places.begin(), places.end(), [](const Placement& x, const Placement& y) {
    return x.position != y.position ? x.position < y.position : rank(x.kind) < rank(y.kind);
  });
  const auto same = [](const Placement& x, const Placement& y) { return x.position == y.position; };
  places.erase(std::unique(places.begin(), places.end(), same), places.end());
}

}  // namespace cairn::engine
