// SPDX-License-Identifier: Apache-2.0
// An arena as a device would give it, in the host's memory.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.hpp"
#include "model/net/backend.hpp"

namespace cairn::testing {

class HostArena final : public model::Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit HostArena(std::size_t bytes) : memory_(bytes + kAlignment), size_(bytes) {
    void* start = memory_.data();
    std::size_t room = memory_.size();
    data_ = static_cast<std::byte*>(std::align(kAlignment, bytes, start, room));
  }
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return size_; }
  void read(const std::byte* from, std::span<std::byte> to) override {
    std::memcpy(to.data(), from, to.size());
    bytes_read += to.size();
  }
  void write(std::span<const std::byte> from, std::byte* to) override {
    std::memcpy(to, from.data(), from.size());
    bytes_written += from.size();
  }

  std::uint64_t bytes_read = 0, bytes_written = 0;

 private:
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// An arena whose bytes the host can reach through read() and write() only: anything else ends the
/// process, as with a device's memory.
class FarArena final : public model::Arena {
 public:
  explicit FarArena(std::size_t bytes) : memory_(bytes) {
    void* p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(p != MAP_FAILED, "no address space for a test");
    data_ = static_cast<std::byte*>(p);
  }
  ~FarArena() override { ::munmap(data_, memory_.size()); }
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return memory_.size(); }
  void read(const std::byte* from, std::span<std::byte> to) override {
    ++moves;
    if (fails) throw DeviceError("told to fail");
    std::memcpy(to.data(), memory_.data() + (from - data_), to.size());
  }
  void write(std::span<const std::byte> from, std::byte* to) override {
    ++moves;
    if (fails) throw DeviceError("told to fail");
    std::memcpy(memory_.data() + (to - data_), from.data(), from.size());
  }

  std::shared_ptr<std::byte> host_memory(std::size_t bytes) override {
    ++asked;
    if (fails || gives_none) throw DeviceError("told to fail");
    return Arena::host_memory(bytes);
  }

  int moves = 0;
  int asked = 0;  // for host memory
  bool fails = false;
  bool gives_none = false;

 private:
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
};

}  // namespace cairn::testing
