// SPDX-License-Identifier: Apache-2.0
// The directory of the disk tier: private to its user, held by one process, with files of known
// names only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/cache/disk_map.hpp"

namespace cairn::engine {

inline constexpr const char* kIndexName = "index.sqlite";

enum class DiskEntryKind : std::uint8_t { segment, state, blob, index, temporary };

struct DirectoryFile {
  std::string name;
  DiskEntryKind kind = DiskEntryKind::temporary;
  DiskId id = 0;  // of segments and states
  std::uint64_t bytes = 0;
};

std::string segment_file_name(DiskId id);
std::string state_file_name(DiskId id);
/// `name`: letters, digits, '_' and '-' only, at most 64.
bool valid_blob_name(std::string_view name);
std::string blob_file_name(std::string_view name);
std::string temporary_name(const std::string& name);

/// A directory that this process holds: others are refused until it is destroyed (or its process
/// ends, however).
class DiskDirectory {
 public:
  /// Creates what is missing (mode 0700) when `create`. Refuses, each in one sentence: a symbolic
  /// link, a directory of another user, one with files that are not the cache's, one held by
  /// another process (whose id it names). Takes access for others away from a directory that is its
  /// user's. Errors: not_found; bad_request: someone has to change something; unavailable: the
  /// system refused (read-only, full).
  static Result<std::unique_ptr<DiskDirectory>> open(std::string path, bool create);
  ~DiskDirectory();
  DiskDirectory(const DiskDirectory&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  /// The cache's own files, by name; others and the lock are left out.
  Result<std::vector<DirectoryFile>> list() const;
  void remove(const std::string& name) const;
  void sync() const;

 private:
  DiskDirectory() = default;
  Status take_lock();
  Status refuse_strangers() const;

  std::string path_;
  int fd_ = -1;
  int lock_ = -1;
};

}  // namespace cairn::engine
