// SPDX-License-Identifier: Apache-2.0
// Pinned host memory through which bytes reach a device, and what work has been queued last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "kernels/cpu/thread_pool.hpp"
#include "kernels/cuda/device.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::model {

/// What device memory is cut into: allocations, blocks and states begin at multiples of it.
inline constexpr std::size_t kDeviceUnit = 256;

constexpr std::size_t in_device_units(std::size_t bytes) {
  return (bytes + kDeviceUnit - 1) / kDeviceUnit * kDeviceUnit;
}

/// Two pinned areas used in turn: the host fills or empties one while the device copies the other.
/// Not thread-safe.
class StagingAreas {
 public:
  struct Area {
    kernels::cuda::PinnedBuffer memory;
    kernels::cuda::Event copied;  // to be recorded behind the area's last copy
  };

  StagingAreas(int device, std::size_t bytes, const std::string& what)
      : areas_{{{device, bytes, what}, kernels::cuda::Event(device)},
               {{device, bytes, what}, kernels::cuda::Event(device)}} {}

  /// The area whose turn it is, its copies done.
  Area& next() {
    Area& area = areas_[turn_];
    turn_ = 1 - turn_;
    if (!area.copied.done()) area.copied.wait();
    return area;
  }
  std::size_t size() const { return areas_[0].memory.size(); }

 private:
  Area areas_[2];
  int turn_ = 0;
};

/// Brings to a device what its memory holds before the first step. Not thread-safe.
class Upload {
 public:
  /// `all` bytes are to come, more or less.
  Upload(int device, std::size_t all)
      : areas_(device, std::min(std::size_t{16} << 20, in_device_units(all)),
               "the weights' upload"),
        stream_(device),
        pool_(default_threads()) {}

  std::size_t area_bytes() const { return areas_.size(); }
  /// Sends what fill(area) writes: `count` bytes, at most area_bytes().
  template <class Fill>
  void send(std::byte* to, std::size_t count, const Fill& fill) {
    StagingAreas::Area& area = areas_.next();
    fill(area.memory.data());
    stream_.copy_to_device(to, area.memory.data(), count);
    area.copied.record(stream_.get());
  }
  void send_bytes(std::byte* to, const void* from, std::size_t count) {
    for (std::size_t at = 0; at < count; at += areas_.size()) {
      const std::size_t part = std::min(areas_.size(), count - at);
      send(to + at, part, [&](std::byte* area) {
        std::memcpy(area, static_cast<const std::byte*>(from) + at, part);
      });
    }
  }
  /// For zeroing.
  kernels::cuda::WorkStream& stream() { return stream_; }
  /// For filling areas.
  kernels::ThreadPool& pool() { return pool_; }
  /// Returns when all has arrived.
  void finish() { stream_.finish(); }

 private:
  StagingAreas areas_;
  kernels::cuda::WorkStream stream_;
  kernels::ThreadPool pool_;
};

/// The end of what a backend has queued so far, for streams beside its own. Thread-safe.
class LastWork {
 public:
  explicit LastWork(int device) : event_(device) {}
  void record(const kernels::cuda::WorkStream& stream) {
    const std::scoped_lock lock(mutex_);
    event_.record(stream.get());
  }
  void hold_back(kernels::cuda::WorkStream& stream) {
    const std::scoped_lock lock(mutex_);
    stream.wait_for(event_);
  }

 private:
  std::mutex mutex_;
  kernels::cuda::Event event_;
};

}  // namespace cairn::model
