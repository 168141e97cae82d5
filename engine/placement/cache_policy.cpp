// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/cache_policy.hpp"

#include <algorithm>

namespace cairn::engine {

const char* to_string(StateKind kind) {
  switch (kind) {
    case StateKind::branch:
      return "branch";
    case StateKind::prompt_end:
      return "prompt_end";
    case StateKind::turn:
      return "turn";
    case StateKind::answer_end:
      return "answer_end";
    case StateKind::planned:
      return "planned";
    case StateKind::pinned:
      return "pinned";
  }
  return "planned";
}

int rank(StateKind kind) {
  constexpr StateKind kSurestFirst[kStateKinds] = {StateKind::pinned,     StateKind::branch,
                                                   StateKind::prompt_end, StateKind::turn,
                                                   StateKind::answer_end, StateKind::planned};
  return static_cast<int>(std::find(kSurestFirst, kSurestFirst + kStateKinds, kind) - kSurestFirst);
}

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
