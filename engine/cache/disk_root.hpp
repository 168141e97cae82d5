// SPDX-License-Identifier: Apache-2.0
// The directory that --disk-dir names: private to its user, held by one process, with one
// sub-directory per fingerprint, so that models and machines that share it leave one another alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cairn::engine {

/// 16 hexadecimal digits.
bool valid_store_name(std::string_view name);

/// Every name in an open directory but "." and "..".
Result<std::vector<std::string>> names_in(int fd);

/// Held by this process: others are refused until it is destroyed (or its process ends, however).
class DiskRoot {
 public:
  /// Creates what is missing (mode 0700) when `create`. Refuses, each in one sentence: a symbolic
  /// link, a directory of another user, one with files that are not the cache's, one held by
  /// another process (whose id it names). Takes access for others away from a directory that is its
  /// user's. Errors: not_found; bad_request: someone has to change something; unavailable: the
  /// directory is there, and the system does not let it be written now (read-only, full).
  static Result<std::unique_ptr<DiskRoot>> open(std::string path, bool create);
  ~DiskRoot();
  DiskRoot(const DiskRoot&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  /// The names of the stores, ascending.
  Result<std::vector<std::string>> stores() const;
  /// Removes an empty store's directory.
  void remove(const std::string& store) const;
  void sync() const;

 private:
  DiskRoot() = default;
  Status create();
  Status examine();
  Status refuse_strangers() const;
  Status take_lock();

  std::string path_;
  int fd_ = -1;
  int lock_ = -1;
};

}  // namespace cairn::engine
