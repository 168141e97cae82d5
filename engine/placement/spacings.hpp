// SPDX-License-Identifier: Apache-2.0
// Fixed spacings: the rules of placement.md section 6 that know nothing of the demand, as far as a
// number of checkpoints defines them. Baselines of a solved plan, and the prior's placement before
// there is one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace cairn::engine {

enum class Spacing : std::uint8_t { none, last, balanced, block, log, log_end, sqrt, sqrt_end };
inline constexpr std::array kSpacings = {Spacing::none,  Spacing::last,    Spacing::balanced,
                                         Spacing::block, Spacing::log,     Spacing::log_end,
                                         Spacing::sqrt,  Spacing::sqrt_end};

/// Spelling of the rule in files and on the command line.
const char* to_string(Spacing spacing);

/// At most `count` positions in [1, length], ascending, floored to `grain`. `block` takes the
/// smallest block that needs no more than `count` of them. count * length must fit 63 bits.
std::vector<std::int64_t> spaced_positions(Spacing spacing, std::int64_t length, std::int64_t count,
                                           std::int64_t grain = 1);

}  // namespace cairn::engine
