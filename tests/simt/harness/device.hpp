// SPDX-License-Identifier: Apache-2.0
// What a test sets and sees of the devices that kernels/cuda/device.hpp finds in the harness.
//
// Work queued on a stream is put off until the host waits for it or for what comes after it; then
// exactly that runs which the order of streams and events demands. So a wait that is missing shows
// as memory that is not written yet (0xff), and a staging buffer that is written too early as the
// later bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::simt {

/// What runs when the host waits for one stream.
enum class Order : std::uint8_t {
  late,          // that stream, and of the others what it waits for
  others_first,  // before that all that the others can do without it
};

struct DeviceSetup {
  int devices = 1;
  int major = 9;  // compute capability
  int minor = 0;
  int multiprocessors = 132;
  std::uint64_t memory = std::uint64_t{512}
                         << 20;  // bytes a device has; an allocation beyond throws
  std::uint64_t pinnable = std::uint64_t{512} << 20;  // the largest PinnedBuffer
  Order order = Order::late;
};

/// The devices during its life; DeviceSetup{} before and after, also when one was lost. One at a
/// time.
class WithDevices {
 public:
  explicit WithDevices(const DeviceSetup& setup);
  ~WithDevices();
  WithDevices(const WithDevices&) = delete;
  WithDevices& operator=(const WithDevices&) = delete;
};

/// After `operations` further ones (allocations, launches, copies, events, waits) the next and all
/// later ones throw DeviceLost, and queued work never runs. Until the WithDevices ends.
void lose_device(std::int64_t operations = 0);

/// Since the program started; of all devices and threads.
struct DeviceCounts {
  std::int64_t allocations = 0;  // of memory, pinned memory, streams, events and graphs
  std::int64_t host_waits = 0;   // WorkStream::finish and Event::wait
  std::int64_t launches = 0;     // of kernels, outside graphs
  std::int64_t copies = 0;       // and zeroing, outside graphs
  std::int64_t graphs = 0;       // launched
  bool operator==(const DeviceCounts&) const = default;
};
DeviceCounts device_counts();
DeviceCounts operator-(const DeviceCounts& after, const DeviceCounts& before);

}  // namespace cairn::simt
