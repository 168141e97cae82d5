// SPDX-License-Identifier: Apache-2.0
// The files of one store: one fingerprint's share of the disk tier, with files of known names only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/cache/disk_map.hpp"
#include "engine/cache/disk_root.hpp"

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

/// One store's directory below a root that this process holds.
class DiskDirectory {
 public:
  /// Refuses one with files that are not the cache's. Errors: bad_request, unavailable (it cannot
  /// be made).
  static Result<std::unique_ptr<DiskDirectory>> open(const DiskRoot& root, const std::string& name,
                                                     bool create);
  ~DiskDirectory();
  DiskDirectory(const DiskDirectory&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  /// The cache's own files, by name.
  Result<std::vector<DirectoryFile>> list() const;
  void remove(const std::string& name) const;
  void sync() const;

 private:
  DiskDirectory() = default;

  std::string path_;
  int fd_ = -1;
};

}  // namespace cairn::engine
