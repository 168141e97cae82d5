// SPDX-License-Identifier: Apache-2.0
// What somebody else sent, inside a message of ours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

inline constexpr std::size_t kShownBytes = 100;

/// At most kShownBytes of UTF-8 text, cut between characters and then ended by "...".
std::string shortened(std::string_view text);
/// 'the same in quotes'.
std::string quoted(std::string_view text);

}  // namespace cairn
