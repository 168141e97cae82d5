// SPDX-License-Identifier: Apache-2.0
// Why a state is kept.
#pragma once

#include <cstdint>

namespace cairn::engine {

/// Why a state is (to be) kept. Values are metric labels.
enum class StateKind : std::uint8_t { branch, prompt_end, turn, answer_end, planned, pinned };
const char* to_string(StateKind kind);
inline constexpr int kStateKinds = 6;

/// How likely a state of this kind is to be used, 0 for the surest: pinned was asked for, a branch
/// was seen, an end is likely to be extended, a planned position is a guess. The surer kind names a
/// position that two ask for (a branch and a prompt's end never do) and is kept where room is
/// short.
int rank(StateKind kind);

}  // namespace cairn::engine
