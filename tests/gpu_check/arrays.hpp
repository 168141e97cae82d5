// SPDX-License-Identifier: Apache-2.0
// Operands of measured kernels.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "tests/gpu_check/probes.hpp"
#include "tests/gpu_check/timing.hpp"

namespace cairn::gpu_check {

/// Elements on the device, filled when the stream's work is done.
template <class T>
class Array {
 public:
  /// Random: T is Bf16, float or std::int8_t. At least `count` elements, a multiple of 8.
  Array(kernels::cuda::WorkStream& stream, std::int64_t count, std::uint32_t seed = 1)
      : memory_(kDevice, bytes((count + 7) / 8 * 8), "operands") {
    fill_random(stream.get(), memory_.template as<T>(), (count + 7) / 8 * 8, seed);
  }
  Array(kernels::cuda::WorkStream& stream, const std::vector<T>& values)
      : memory_(kDevice, bytes(static_cast<std::int64_t>(values.size())), "operands") {
    const kernels::cuda::PinnedBuffer pinned(kDevice, memory_.size(), "operands");
    std::memcpy(pinned.data(), values.data(), memory_.size());
    stream.copy_to_device(memory_.data(), pinned.data(), memory_.size());
    stream.finish();
  }

  T* get() const { return memory_.template as<T>(); }

 private:
  static std::size_t bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(T);
  }
  kernels::cuda::DeviceBuffer memory_;
};

/// Not filled.
template <class T>
class Space {
 public:
  explicit Space(std::int64_t count)
      : memory_(kDevice, static_cast<std::size_t>(count) * sizeof(T), "results") {}
  T* get() const { return memory_.template as<T>(); }
  const kernels::cuda::DeviceBuffer& memory() const { return memory_; }

 private:
  kernels::cuda::DeviceBuffer memory_;
};

}  // namespace cairn::gpu_check
