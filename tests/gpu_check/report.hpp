// SPDX-License-Identifier: Apache-2.0
// What gpu_check found: one row a fact, check or time, on file as soon as it is known, since the
// process that finds it may not live to tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::gpu_check {

enum class State : std::uint8_t { measured, passed, failed, skipped };

struct Row {
  std::string part;
  std::string name;
  State state = State::measured;
  double value = 0;    // of a measured one
  std::string unit{};  // empty: `note` is the value
  double share = -1;   // of what bounds it, when that is known
  std::string note{};
};

/// One JSON object, without a line's end.
std::string to_json(const Row& row);
/// Rows of a file that has one a line; a line cut short is left out.
std::vector<Row> read_rows(const std::string& path);

/// Appends the rows of one part to a file. Not thread-safe. Throws std::runtime_error when the file
/// cannot be written.
class Report {
 public:
  Report(std::string path, std::string part) : path_(std::move(path)), part_(std::move(part)) {}

  void measured(const std::string& name, double value, const std::string& unit,
                const std::string& note = "");
  /// `share` of a bound that `note` names.
  void share(const std::string& name, double value, const std::string& unit, double share,
             const std::string& note);
  void fact(const std::string& name, const std::string& what);
  void passed(const std::string& name, const std::string& note = "");
  void failed(const std::string& name, const std::string& why);
  void skipped(const std::string& name, const std::string& why);

 private:
  void add(Row row);
  std::string path_;
  std::string part_;
};

/// The rows as a table for people, by part.
std::string table(const std::vector<Row>& rows);
/// {"dry_run": ..., "seconds": ..., "rows": [...]}
std::string document(const std::vector<Row>& rows, bool dry_run, double seconds);

}  // namespace cairn::gpu_check
