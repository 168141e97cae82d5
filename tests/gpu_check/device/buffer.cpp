// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/device/buffer.hpp"

#include <algorithm>
#include <cstring>

namespace cairn::testing::device {
namespace {

using kernels::cuda::Event;
using kernels::cuda::PinnedBuffer;
using kernels::cuda::WorkStream;

constexpr std::size_t kGuard = 256;  // on either side
constexpr auto kGuardByte = std::byte{0xa5};

/// Copies by way of pinned memory.
class Copier {
 public:
  void to_device(std::byte* to, const std::byte* from, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += stage_.size()) {
      const std::size_t share = std::min(stage_.size(), bytes - done);
      std::memcpy(stage_.data(), from + done, share);
      stream_.copy_to_device(to + done, stage_.data(), share);
      stream_.finish();
    }
  }
  void to_host(std::byte* to, const std::byte* from, std::size_t bytes) {
    kernels_.record(nullptr);
    stream_.wait_for(kernels_);
    for (std::size_t done = 0; done < bytes; done += stage_.size()) {
      const std::size_t share = std::min(stage_.size(), bytes - done);
      stream_.copy_to_host(stage_.data(), from + done, share);
      stream_.finish();
      std::memcpy(to + done, stage_.data(), share);
    }
  }

 private:
  PinnedBuffer stage_{0, std::size_t{1} << 20, "the copies of the tests"};
  WorkStream stream_{0};
  Event kernels_{0};
};

Copier& copier() {
  static Copier one;
  return one;
}

}  // namespace

DeviceBytes::DeviceBytes(std::size_t bytes)
    : bytes_(bytes), memory_(0, bytes + 2 * kGuard, "a test") {
  std::vector<std::byte> fill(bytes + 2 * kGuard, std::byte{0xff});
  std::fill_n(fill.begin(), kGuard, kGuardByte);
  std::fill_n(fill.end() - kGuard, kGuard, kGuardByte);
  copier().to_device(memory_.data(), fill.data(), fill.size());
}

DeviceBytes::~DeviceBytes() {
  try {
    std::vector<std::byte> guards(2 * kGuard);
    copier().to_host(guards.data(), memory_.data(), kGuard);
    copier().to_host(guards.data() + kGuard, data() + bytes_, kGuard);
    if (std::any_of(guards.begin(), guards.end(), [](std::byte b) { return b != kGuardByte; })) {
      fail_test("a kernel wrote beside its buffer");
    }
  } catch (const std::exception& error) {
    fail_test(error.what());
  }
}

std::byte* DeviceBytes::data() const { return memory_.data() + kGuard; }

void DeviceBytes::write(const void* from, std::size_t bytes) {
  copier().to_device(data(), static_cast<const std::byte*>(from), bytes);
}

void DeviceBytes::read(void* to, std::size_t bytes) const {
  copier().to_host(static_cast<std::byte*>(to), data(), bytes);
}

Counting::Counting(Blocks) { throw NeedsHarness("counts what a kernel moves"); }

std::int64_t launches() { throw NeedsHarness("counts launches"); }

}  // namespace cairn::testing::device
