// SPDX-License-Identifier: Apache-2.0
// The log of the program: stderr, with time and level.
#pragma once

#include <string>

namespace cairn::cli {

/// `level` is debug, info, warning or error.
void start_logging(const std::string& level);

}  // namespace cairn::cli
