// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cairn::cli {

/// The file's content; "-" is standard input. Throws LoadError naming the path.
std::string read_input(const std::string& path);

}  // namespace cairn::cli
