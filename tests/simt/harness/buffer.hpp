// SPDX-License-Identifier: Apache-2.0
// Device memory of a test.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tests/simt/harness/harness.hpp"

namespace cairn::simt {

/// `count` elements of allocate().
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Buffer(std::size_t count) : count_(count), memory_(allocate(bytes(), Place::device)) {}
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { write(values); }
  ~Buffer() { release(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_); }
  const T* data() const { return reinterpret_cast<const T*>(memory_); }
  std::size_t size() const { return count_; }

  void write(const std::vector<T>& values) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  std::vector<T> read() const { return std::vector<T>(data(), data() + count_); }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  std::byte* memory_;
};

}  // namespace cairn::simt
