// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cairn::cli {

/// The file's content; "-" is standard input. Throws LoadError naming the path.
std::string read_input(const std::string& path);

/// Throws LoadError naming path and reason for a file that could not be written. Leaves what it
/// holds: work that is interrupted must not cost an earlier report.
void check_writable(const std::string& path);

/// Replaces what the file holds. Throws LoadError naming path and reason.
void write_file(const std::string& path, const std::string& content);

}  // namespace cairn::cli
