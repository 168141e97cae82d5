// SPDX-License-Identifier: Apache-2.0
// An arena as a device would give it, in the host's memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

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

}  // namespace cairn::testing
