// SPDX-License-Identifier: Apache-2.0
// Device memory of the kernel tests on a device (kernels/cuda/device.hpp), as tests/simt/harness
// has it without one, and in place of what only the harness can count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "tests/gpu_check/device/runner.hpp"

namespace cairn::testing::device {

/// Bytes on the device, 0xff until written, between guard bytes that fail the test when one has
/// changed. Reads follow everything queued on the default stream.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const;
  void write(const void* from, std::size_t bytes);
  void read(void* to, std::size_t bytes) const;

 private:
  std::size_t bytes_;
  kernels::cuda::DeviceBuffer memory_;
};

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Buffer(std::size_t count) : count_(count), bytes_(count * sizeof(T)) {}
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { write(values); }

  T* data() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  std::size_t size() const { return count_; }

  void write(const std::vector<T>& values) {
    bytes_.write(values.data(), values.size() * sizeof(T));
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    bytes_.read(values.data(), count_ * sizeof(T));
    return values;
  }

 private:
  std::size_t count_;
  DeviceBytes bytes_;
};

struct Traffic {
  std::int64_t bytes = 0, sectors = 0, conflicts = 0;
  double efficiency() const { return 0; }
};
struct Counters {
  std::int64_t launches = 0;
  Traffic loads, stores, shared;
};
enum class Blocks { independent, may_meet };

/// No device tells how many bytes a kernel moved: the test is over here.
class Counting {
 public:
  explicit Counting(Blocks blocks = Blocks::independent);
  Counters of(const std::string&) const { return {}; }
  Counters total() const { return {}; }
};

std::int64_t launches();  // likewise

}  // namespace cairn::testing::device
