// SPDX-License-Identifier: Apache-2.0
#include "model/net/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/check.hpp"

namespace cairn::model {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw LoadError(path + ": cannot be opened: " + std::strerror(errno) + ".");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

  std::size_t regular_size(const std::string& path) const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      throw LoadError(path + ": expected a regular file.");
    }
    return static_cast<std::size_t>(info.st_size);
  }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file(path);
  const std::size_t size = file.regular_size(path);
  if (size == 0) return;  // an empty mapping is an error to mmap, an empty file is not one here
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) {
    throw LoadError(path + ": cannot be mapped: " + std::strerror(errno) + ".");
  }
  ::madvise(start, size, MADV_SEQUENTIAL);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::drop(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  // Inner pages only: the outer ones may hold a neighbour's bytes.
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t last = (address + part.size()) / page * page;
  if (first < last) {
    ::madvise(const_cast<std::byte*>(part.data()) + (first - address), last - first, MADV_DONTNEED);
  }
}

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    throw LoadError(path + ": is " + std::to_string(bytes.size()) + " bytes, expected at most " +
                    std::to_string(max_bytes) + ".");
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace cairn::model
