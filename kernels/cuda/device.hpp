// SPDX-License-Identifier: Apache-2.0
// What a backend needs of a device besides kernels: memory, streams, events and graphs. No CUDA
// header. Implemented for real devices in device.cu and, for tests without one, by the SIMT harness
// (tests/simt/harness), which puts work off as long as the order of streams and events allows.
//
// Every object belongs to the device it was made on and may be used from any thread, one at a time.
// Memory that is given back waits for all work of its device.
// Errors are DeviceError in the user's terms; DeviceLost when the device answers nothing any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/grid.hpp"

struct CUevent_st;
struct CUgraphExec_st;

namespace cairn::kernels::cuda {

struct DeviceDescription {
  int index = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_total = 0;  // bytes
  std::uint64_t memory_free = 0;
  /// "sm_90"
  std::string architecture() const { return "sm_" + std::to_string(10 * major + minor); }
  /// The kernels need sm_75.
  bool supported() const { return 10 * major + minor >= 75; }
  /// Whether tensor cores take bf16 (sm_80 and later).
  bool multiplies_bf16() const { return major >= 8; }
};

/// The devices that the kernels can run on, with 0 as their free memory: asking takes a context on
/// each. Throws DeviceError when there is none: says whether the driver is missing, too old, or
/// sees no device, or which architecture is needed.
std::vector<DeviceDescription> find_devices();
/// Device `index`, with memory as free as it is now. Throws DeviceError as find_devices, and when
/// there is no such device, its architecture is below sm_75, or this build has no code for it.
DeviceDescription describe_device(int index);

enum class MemoryKind : std::uint8_t { device, pinned };

/// Memory that owns itself. Move-only; what is given back waits for all work of its device.
template <MemoryKind kKind>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  /// `what` says in the error of full memory what it was for, as in "the weights".
  OwnedMemory(int device, std::size_t bytes, const std::string& what);
  ~OwnedMemory();
  OwnedMemory(OwnedMemory&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  OwnedMemory& operator=(OwnedMemory other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::size_t size() const { return size_; }

 private:
  int device_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Of a device, 256-byte aligned, not initialised.
using DeviceBuffer = OwnedMemory<MemoryKind::device>;
/// Of the host, which devices copy from and to while the host goes on. Zeroed.
using PinnedBuffer = OwnedMemory<MemoryKind::pinned>;
template <>
DeviceBuffer::OwnedMemory(int device, std::size_t bytes, const std::string& what);
template <>
DeviceBuffer::~OwnedMemory();
template <>
PinnedBuffer::OwnedMemory(int device, std::size_t bytes, const std::string& what);
template <>
PinnedBuffer::~OwnedMemory();

/// A point in a stream's work. Move-only.
class Event {
 public:
  explicit Event(int device);
  ~Event();
  Event(Event&& other) noexcept
      : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }

  /// Stands for everything queued on `stream` so far; replaces what it stood for.
  void record(Stream stream);
  /// Blocks the calling thread until that work is done (at once when nothing was recorded). Throws
  /// DeviceError / DeviceLost for work that failed.
  void wait() const;
  bool done() const;
  /// Milliseconds of the device's clock from `from`; both are done.
  float milliseconds_since(const Event& from) const;

 private:
  friend class WorkStream;
  int device_ = 0;
  CUevent_st* event_ = nullptr;
};

/// A stream that owns itself: its work runs in order, beside other streams'. Move-only.
class WorkStream {
 public:
  explicit WorkStream(int device);
  ~WorkStream();  // waits for its work
  WorkStream(WorkStream&& other) noexcept
      : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}
  WorkStream& operator=(WorkStream other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }

  /// For launchers, which run on the device that the calling thread used last: this one.
  Stream get() const;
  int device() const { return device_; }
  /// What is queued from now on runs after what the event stands for; the host does not wait.
  void wait_for(const Event& event);
  /// Blocks the calling thread until all its work is done. Throws as Event::wait.
  void finish() const;

  // Queued; both ends stay as they are until the work has run. Host ends are pinned.
  void copy_to_device(std::byte* to, const std::byte* from_pinned, std::size_t bytes);
  void copy_to_host(std::byte* to_pinned, const std::byte* from, std::size_t bytes);
  void copy_on_device(std::byte* to, const std::byte* from, std::size_t bytes);
  void zero(std::byte* to, std::size_t bytes);

 private:
  int device_ = 0;
  Stream stream_ = nullptr;
};

/// Work recorded once and queued as often as wanted with one call. Launches keep the arguments they
/// were recorded with: what changes between runs lies in memory that they point to. Move-only.
class Graph {
 public:
  Graph() = default;
  /// Records what `queue` puts on `stream` from the calling thread; nothing of it runs. Events,
  /// waits and allocations have no place in it: DeviceError. When it throws, the stream is as
  /// before.
  Graph(WorkStream& stream, const std::function<void()>& queue);
  ~Graph();
  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), nodes_(std::exchange(other.nodes_, 0)) {}
  Graph& operator=(Graph other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(nodes_, other.nodes_);
    return *this;
  }

  explicit operator bool() const { return graph_ != nullptr; }
  void launch(WorkStream& stream) const;
  std::size_t nodes() const { return nodes_; }

 private:
  CUgraphExec_st* graph_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace cairn::kernels::cuda
