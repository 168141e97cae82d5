// SPDX-License-Identifier: Apache-2.0
// A trace file line by line, plain or gzip, with errors that say where.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cairn::engine {

/// Owned by one thread. Errors are LoadErrors that begin with "path:line: ".
class TraceLines {
 public:
  explicit TraceLines(const std::string& path);
  ~TraceLines();

  /// The next line that is not blank, without its end; false after the last. A byte-order mark
  /// before the first is skipped.
  bool next(std::string& line);
  /// Of a field of the line last read: "field 'x': expected ..".
  [[noreturn]] void fail(std::string_view field, const std::string& expected) const;
  /// Of the line as a whole.
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  bool read_line(std::string& line);
  bool fill();
  void check_end();

  struct File;
  std::unique_ptr<File> file_;
  std::string path_;
  std::int64_t line_ = 0;
};

/// At most 40 bytes of `text` in quotes, what is not printable ASCII as '?'.
std::string quoted(std::string_view text);

}  // namespace cairn::engine
