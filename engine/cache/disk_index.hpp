// SPDX-License-Identifier: Apache-2.0
// The disk tier's index: one row per segment and state, in SQLite. A row appears after its file is
// safe on disk and goes before its file does, so that a crash leaves files without rows at worst.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/cache/disk_map.hpp"

namespace cairn::engine {

/// One transaction.
struct IndexBatch {
  std::vector<const DiskSegment*> segments;  // parents before children
  std::vector<const DiskStateInfo*> states;
  DiskFreed freed;
  std::vector<DiskId> states_gone;
  std::vector<const DiskStateInfo*> touched;  // last use and rate are new
  bool empty() const;
};

/// Not thread-safe. Errors: bad_request when the file is damaged or of another version, unavailable
/// when it cannot be read or written now. Deleted rows are overwritten with zeros.
class DiskIndex {
 public:
  /// Opens or creates; the file has mode 0600 and so have those that SQLite puts beside it. The
  /// caller sees to it that no other process has it open.
  static Result<std::unique_ptr<DiskIndex>> open(const std::string& path);
  /// Checkpoints what is in the write-ahead log.
  ~DiskIndex();
  DiskIndex(const DiskIndex&) = delete;

  /// "" when there is none.
  Result<std::string> meta(const std::string& key) const;
  Status set_meta(const std::string& key, const std::string& value);

  /// Adds every row that fits to `map` (empty before) and returns the largest id of any row. Rows
  /// that do not fit are deleted and counted.
  Result<DiskId> load(DiskMap& map, std::uint64_t* rows_refused);
  /// Checkpoints when the log has grown beyond 256 KiB: it never exceeds that and one batch.
  Status commit(const IndexBatch& batch);
  /// Brings the log into the file and empties it: nothing deleted is left in either.
  Status checkpoint();

 private:
  struct Impl;
  explicit DiskIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The file names that belong to an index at `path`'s place.
std::vector<std::string> index_file_names(const std::string& name);

}  // namespace cairn::engine
