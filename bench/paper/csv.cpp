// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/csv.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/check.hpp"

namespace cairn::paper {
namespace {

/// One record from `at` on; false at the end.
bool next_record(const std::string& text, std::size_t& at, std::vector<std::string>& cells) {
  cells.clear();
  if (at >= text.size()) return false;
  std::string cell;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        cell += text[++at];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.push_back(std::exchange(cell, {}));
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      cell += c;
    }
  }
  cells.push_back(std::move(cell));
  return true;
}

}  // namespace

CsvTable read_csv(const std::string& path, const std::vector<std::string>& columns) {
  const std::string text = read_text(path);
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  std::vector<std::string> cells;
  next_record(text, at, cells);
  std::vector<std::size_t> places;
  for (const std::string& column : columns) {
    const auto found = std::find(cells.begin(), cells.end(), column);
    if (found == cells.end()) throw LoadError(path + ": expected a column '" + column + "'");
    places.push_back(static_cast<std::size_t>(found - cells.begin()));
  }
  CsvTable table;
  while (next_record(text, at, cells)) {
    if (cells.size() == 1 && cells[0].empty()) continue;
    auto& row = table.rows.emplace_back();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] >= cells.size()) {
        throw LoadError(path + ": row " + std::to_string(table.rows.size()) + ": field '" +
                        columns[i] + "' is missing");
      }
      row.push_back(cells[places[i]]);
    }
  }
  return table;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || file.bad()) {
    throw LoadError(path + ": cannot be read" +
                    (errno ? std::string(": ") + std::strerror(errno) : ""));
  }
  return text;
}

}  // namespace cairn::paper
