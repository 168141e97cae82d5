// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace cairn::model {

/// A file under a temporary name that gets its own in commit(); removed when that never happens, by
/// the next writer of that file when the process was killed. Not thread-safe. Throws LoadError
/// naming the file when the system refuses.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// `durable`: waits for the disk, so that no crash leaves a file of this name that is not whole.
  void commit(bool durable = true);

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool done_ = false;
};

}  // namespace cairn::model
