// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace cairn::model {

/// A file under a temporary name, unlike any other writer's, that gets its own in commit(); removed
/// when that never happens, by the next writer of that file when the process was killed. Not
/// thread-safe. Throws LoadError naming the file when the system refuses, when something else than
/// a regular file has that name, or when another process holds the temporary one's lock for longer
/// than `lock_wait` (a network file system may forget to end one).
class NewFile {
 public:
  static constexpr std::chrono::milliseconds kLockWait{5000};
  explicit NewFile(const std::string& path, std::chrono::milliseconds lock_wait = kLockWait);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Takes room for that many bytes, so that a full disk is known before the work for them is done.
  void reserve(std::uint64_t bytes);
  void write(const void* data, std::size_t bytes);
  /// `durable`: waits for the disk, so that no crash leaves a file of this name that is not whole.
  void commit(bool durable = true);

 private:
  void open_temporary(std::chrono::milliseconds lock_wait);
  bool lock(int file, std::chrono::milliseconds wait) const;
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail(int error) const;

  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool done_ = false;
};

}  // namespace cairn::model
