// SPDX-License-Identifier: Apache-2.0
// Device memory of a test.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "tests/simt/harness/harness.hpp"

namespace cairn::simt {

/// `count` elements, 256-byte aligned as cudaMalloc's. What no one has written is 0xff: NaN, or a
/// negative index. Exactly sized, so that AddressSanitizer sees the first byte outside; without it
/// guard bytes on both sides are compared after every launch.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Buffer(std::size_t count) : count_(count) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kAlignment, bytes() + 2 * kGuard) != 0) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    std::memset(memory_, 0xff, bytes() + 2 * kGuard);
    for (std::byte* guard_begin : {memory_, memory_ + kGuard + bytes()}) {
      if (kGuard == 0) continue;
      std::memset(guard_begin, 0xa5, kGuard);
      guard(guard_begin, kGuard);
    }
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { write(values); }
  ~Buffer() {
    unguard(memory_);
    unguard(memory_ + kGuard + bytes());
    std::free(memory_);  // NOLINT: from posix_memalign
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_ + kGuard); }
  const T* data() const { return reinterpret_cast<const T*>(memory_ + kGuard); }
  std::size_t size() const { return count_; }

  void write(const std::vector<T>& values) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  std::vector<T> read() const { return std::vector<T>(data(), data() + count_); }

 private:
  static constexpr std::size_t kAlignment = 256;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kGuard = 0;
#else
  static constexpr std::size_t kGuard = kAlignment;
#endif

  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  std::byte* memory_ = nullptr;
};

}  // namespace cairn::simt
