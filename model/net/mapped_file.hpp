// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace cairn::model {

/// A whole file mapped read-only; unmapped by the destructor. Immutable, so thread-safe. Throws
/// LoadError naming the file when it cannot be opened or mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Tells the kernel that these pages are not needed again (a hint; they can still be read).
  void drop(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
};

/// A small text file (configs, indices) as a string. Throws LoadError when missing or above
/// `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace cairn::model
