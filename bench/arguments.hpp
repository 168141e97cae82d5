// SPDX-License-Identifier: Apache-2.0
// Numbers on the command line of a benchmark.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.hpp"

namespace cairn::bench {

/// The whole of `text`. Throws LoadError naming the option where that is no number from `least` to
/// `most`.
inline int whole_number(const std::string& option, std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw LoadError(option + ": expected " + std::to_string(least) + " to " + std::to_string(most) +
                    ", not '" + std::string(text) + "'");
  }
  return value;
}

}  // namespace cairn::bench
