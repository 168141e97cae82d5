// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

namespace cairn {

void throw_invariant(std::string_view message, const char* file, int line) {
  throw InvariantError(std::string(file) + ":" + std::to_string(line) + ": " +
                       std::string(message));
}

}  // namespace cairn
