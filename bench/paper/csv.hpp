// SPDX-License-Identifier: Apache-2.0
// CSV with quoted cells, which may hold commas, quotes and line ends (RFC 4180).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::paper {

struct CsvTable {
  std::vector<std::vector<std::string>> rows;  // of the columns asked for, in that order
};

/// Throws LoadError naming the file, and the column that is missing or the row that is too short.
CsvTable read_csv(const std::string& path, const std::vector<std::string>& columns);

/// A number of digits alone, below 2^62.
std::optional<std::int64_t> parse_count(std::string_view text);

/// The file's content. Throws LoadError.
std::string read_text(const std::string& path);

}  // namespace cairn::paper
