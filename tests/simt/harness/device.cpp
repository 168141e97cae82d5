// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/device.hpp without a device.
#include "kernels/cuda/device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "kernels/cuda/device_errors.hpp"
#include "kernels/cuda/host_threads.hpp"
#include "tests/simt/harness/harness.hpp"
#include "tests/simt/harness/lock.hpp"
#include "tests/simt/harness/machine.hpp"
#include "tests/simt/harness/streams.hpp"

struct CUevent_st {
  std::shared_ptr<cairn::simt::Point> point;
};

struct CUgraphExec_st {
  std::shared_ptr<const cairn::simt::Recording> recording;
};

namespace cairn::simt {
namespace {

struct Devices {
  DeviceSetup setup;
  std::int64_t operations_left = -1;  // until the device is lost; -1: it is not going to be
  DeviceCounts counts;
  std::map<int, std::uint64_t> used;  // bytes, by device
};

Devices& devices() {
  static Devices all;
  return all;
}

std::uint64_t free_bytes(int device) {
  const std::uint64_t used = devices().used[device];
  return devices().setup.memory - std::min(used, devices().setup.memory);
}

thread_local Capture* capturing = nullptr;

/// Every call of the interface that a device would see.
void operation(const std::string& what) {
  Devices& all = devices();
  if (all.operations_left > 0)
    --all.operations_left;
  else if (all.operations_left == 0) {
    discard_everything();
    throw DeviceLost(kernels::cuda::text_of_lost_device(what, "the test took it away"));
  }
}

void refuse_in_capture(const char* what) {
  if (capturing == nullptr) return;
  capturing->broken = true;
  throw DeviceError(std::string(what) + ": not while the thread records a graph");
}

void require_device(int index) {
  const int count = devices().setup.devices;
  if (count == 0) throw DeviceError(kernels::cuda::text_of_no_device());
  if (index < 0 || index >= count) {
    throw DeviceError(kernels::cuda::text_of_wrong_index(index, count));
  }
}

void count_allocation(int device, const char* what) {
  require_device(device);
  refuse_in_capture(what);
  operation(what);
  ++devices().counts.allocations;
}

void count_wait(const char* what) {
  refuse_in_capture(what);
  operation(what);
  ++devices().counts.host_waits;
}

kernels::cuda::DeviceDescription describe(int index) {
  const DeviceSetup& setup = devices().setup;
  return {index,        "harness",        setup.major, setup.minor, setup.multiprocessors,
          setup.memory, free_bytes(index)};
}

/// A destructor can tell nobody that work failed, and a test may not miss it.
template <class Work>
void in_destructor(const Work& work) noexcept {
  const Lock lock;
  try {
    work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "work that nobody waited for: %s\n", error.what());
    std::abort();
  }
}

void need(const std::byte* begin, std::size_t bytes, Place place, const char* what) {
  if (bytes > 0 && !allocated(begin, bytes, place)) {
    throw Fault(std::string(what) + ": the " +
                (place == Place::device ? "device's" : "host's pinned") +
                " end does not lie in one buffer");
  }
}

struct End {
  const std::byte* begin;
  Place place;
};

/// Queues `work` on bytes at both ends, which have to be there now and when it runs.
template <class Work>
void queue_bytes(CUstream_st& stream, const char* what, End to, End from, std::size_t bytes,
                 const Work& work) {
  const Lock lock;
  operation(what);
  if (stream.capture == nullptr) ++devices().counts.copies;
  const auto check_ends = [=] {
    need(to.begin, bytes, to.place, what);
    need(from.begin, bytes, from.place, what);
  };
  check_ends();
  push(stream, {.work = [=] {
         check_ends();
         work();
         check_guards(what);
       }});
}

}  // namespace

WithDevices::WithDevices(const DeviceSetup& setup) {
  const Lock lock;
  devices().setup = setup;
}

WithDevices::~WithDevices() {
  const Lock lock;
  devices().setup = {};
  devices().operations_left = -1;
}

void lose_device(std::int64_t operations) {
  const Lock lock;
  devices().operations_left = operations;
}

DeviceCounts device_counts() {
  const Lock lock;
  return devices().counts;
}

DeviceCounts operator-(const DeviceCounts& after, const DeviceCounts& before) {
  return {after.allocations - before.allocations, after.host_waits - before.host_waits,
          after.launches - before.launches, after.copies - before.copies,
          after.graphs - before.graphs};
}

void queue(CUstream_st* stream, const char* kernel, std::function<void()> work) {
  const Lock lock;
  operation(std::string("launch of ") + kernel);
  if (stream == nullptr || stream->capture == nullptr) ++devices().counts.launches;
  if (stream == nullptr) {
    work();
  } else {
    push(*stream, {.work = std::move(work)});
  }
}

}  // namespace cairn::simt

namespace cairn::kernels::cuda {

using namespace simt;

std::vector<DeviceDescription> find_devices() {
  const Lock lock;
  require_device(0);
  std::vector<DeviceDescription> found;
  for (int i = 0; i < devices().setup.devices; ++i) {
    found.push_back(describe(i));
    found.back().memory_free = 0;
  }
  if (!found.back().supported()) {
    throw DeviceError("no CUDA device: " +
                      text_of_old_architecture(found.back().index, found.back().architecture()));
  }
  return found;
}

DeviceDescription describe_device(int index) {
  const Lock lock;
  require_device(index);
  operation("describing the device");
  DeviceDescription device = describe(index);
  if (!device.supported()) {
    throw DeviceError(text_of_old_architecture(index, device.architecture()));
  }
  return device;
}

template <>
DeviceBuffer::OwnedMemory(int device, std::size_t bytes, const std::string& what)
    : device_(device) {
  const Lock lock;
  count_allocation(device, "allocating memory");
  const std::uint64_t free = free_bytes(device);
  if (bytes > free) throw DeviceError(text_of_full_device(device, what, bytes, free));
  if (bytes == 0) return;
  data_ = allocate(bytes, Place::device);
  size_ = bytes;
  devices().used[device] += bytes;
}

template <>
DeviceBuffer::~OwnedMemory() {
  if (data_ == nullptr) return;
  in_destructor([this] {
    run_everything();
    release(data_);
    devices().used[device_] -= size_;
  });
}

template <>
PinnedBuffer::OwnedMemory(int device, std::size_t bytes, const std::string& what)
    : device_(device) {
  const Lock lock;
  count_allocation(device, "pinning memory");
  if (bytes > devices().setup.pinnable) throw DeviceError(text_of_full_host(what, bytes));
  if (bytes == 0) return;
  data_ = allocate(bytes, Place::pinned);
  std::memset(data_, 0, bytes);
  size_ = bytes;
}

template <>
PinnedBuffer::~OwnedMemory() {
  if (data_ == nullptr) return;
  in_destructor([this] {
    run_everything();
    release(data_);
  });
}

Event::Event(int device) : device_(device) {
  const Lock lock;
  count_allocation(device, "making an event");
  event_ = new CUevent_st;
}

Event::~Event() { delete event_; }

void Event::record(Stream stream) {
  const Lock lock;
  refuse_in_capture("recording an event");
  operation("recording an event");
  event_->point = std::make_shared<Point>();
  event_->point->stream = stream;
  if (stream != nullptr) {
    push(*stream, {.reached = event_->point});
  } else {
    reach(*event_->point);
  }
}

void Event::wait() const {
  const Lock lock;
  count_wait("waiting for an event");
  if (event_->point != nullptr) run_until(*event_->point, devices().setup.order);
}

bool Event::done() const {
  const Lock lock;
  refuse_in_capture("asking for an event");
  operation("asking for an event");
  const bool reached = event_->point == nullptr || event_->point->stream == nullptr;
  // Who asks again and again gets on.
  if (event_->point != nullptr) run_until(*event_->point, devices().setup.order);
  return reached;
}

float Event::milliseconds_since(const Event& from) const {
  const Lock lock;
  operation("timing events");
  for (const CUevent_st* event : {event_, from.event_}) {
    check(event->point != nullptr && event->point->stream == nullptr,
          "only events that are done have a time");
  }
  return std::chrono::duration<float, std::milli>(event_->point->when - from.event_->point->when)
      .count();
}

WorkStream::WorkStream(int device) : device_(device) {
  const Lock lock;
  count_allocation(device, "making a stream");
  stream_ = new CUstream_st;
  add_stream(*stream_);
}

WorkStream::~WorkStream() {
  if (stream_ == nullptr) return;
  in_destructor([this] {
    run_all(*stream_, devices().setup.order);
    remove_stream(*stream_);
    delete stream_;
  });
}

Stream WorkStream::get() const { return stream_; }

void WorkStream::wait_for(const Event& event) {
  const Lock lock;
  refuse_in_capture("waiting for an event");
  operation("waiting for an event");
  push(*stream_, {.after = event.event_->point});
}

void WorkStream::finish() const {
  const Lock lock;
  count_wait("waiting for a stream");
  run_all(*stream_, devices().setup.order);
}

void WorkStream::copy_to_device(std::byte* to, const std::byte* from_pinned, std::size_t bytes) {
  queue_bytes(*stream_, "a copy to the device", {to, Place::device}, {from_pinned, Place::pinned},
              bytes, [=] { std::memcpy(to, from_pinned, bytes); });
}

void WorkStream::copy_to_host(std::byte* to_pinned, const std::byte* from, std::size_t bytes) {
  queue_bytes(*stream_, "a copy to the host", {to_pinned, Place::pinned}, {from, Place::device},
              bytes, [=] { std::memcpy(to_pinned, from, bytes); });
}

void WorkStream::copy_on_device(std::byte* to, const std::byte* from, std::size_t bytes) {
  queue_bytes(*stream_, "a copy on the device", {to, Place::device}, {from, Place::device}, bytes,
              [=] { std::memcpy(to, from, bytes); });
}

void WorkStream::zero(std::byte* to, std::size_t bytes) {
  queue_bytes(*stream_, "zeroing", {to, Place::device}, {to, Place::device}, bytes,
              [=] { std::memset(to, 0, bytes); });
}

Graph::Graph(WorkStream& stream, const std::function<void()>& queue) {
  {
    const Lock lock;
    count_allocation(stream.device(), "recording a graph");
    stream.get()->capture = std::make_unique<Capture>();
    stream.get()->capture->thread = std::this_thread::get_id();
    capturing = stream.get()->capture.get();
  }
  const auto end = [&] {
    const Lock lock;
    capturing = nullptr;
    return std::exchange(stream.get()->capture, nullptr);
  };
  try {
    queue();
  } catch (...) {
    end();
    throw;
  }
  const std::unique_ptr<Capture> capture = end();
  if (capture->broken) throw DeviceError("recording a graph: it holds what no graph can");
  nodes_ = capture->recording.work.size();
  graph_ = new CUgraphExec_st{std::make_shared<const Recording>(std::move(capture->recording))};
}

Graph::~Graph() {
  if (graph_ == nullptr) return;
  order_acquire(&graph_->recording->token);  // a launch has read it
  delete graph_;
}

void Graph::launch(WorkStream& stream) const {
  const Lock lock;
  refuse_in_capture("launching a graph");
  operation("launching a graph");
  ++devices().counts.graphs;
  push(*stream.get(), {.work = [recording = graph_->recording] {
    for (const auto& node : recording->work) node();
    order_release(&recording->token);
  }});
}

}  // namespace cairn::kernels::cuda
