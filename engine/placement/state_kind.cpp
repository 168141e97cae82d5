// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/state_kind.hpp"

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

}  // namespace cairn::engine
