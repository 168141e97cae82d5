// SPDX-License-Identifier: Apache-2.0
// device.hpp on the CUDA runtime. For nvcc only: the SIMT harness has its own.
#include "kernels/cuda/device.hpp"

#include <cuda_runtime_api.h>

#include <cstring>

#include "base/check.hpp"
#include "kernels/cuda/device_errors.hpp"
#include "kernels/cuda/errors.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Makes `device` the calling thread's. Nothing else in the process calls cudaSetDevice.
cudaError_t enter(int device) {
  thread_local int entered = -1;
  if (entered == device) return cudaSuccess;
  const cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) entered = device;
  return status;
}

/// A call on `device`, whose status becomes an error.
template <class Call>
void call_on(int device, const char* during, const Call& call) {
  check_cuda(enter(device), during);
  check_cuda(call(), during);
}

/// Nothing is queued of no bytes: then there may be no memory either.
template <class Call>
void queue_bytes(int device, std::size_t bytes, const char* during, const Call& call) {
  if (bytes > 0) call_on(device, during, call);
}

/// A destructor's call: after an error of the device there is nothing left to give back.
template <class Call>
void release_on(int device, const Call& call) noexcept {
  if (enter(device) == cudaSuccess) call();
  cudaGetLastError();
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void throw_old_driver() {
  int driver = 0;
  int needed = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&needed);
  throw DeviceError(driver == 0 ? text_of_no_driver(version_text(needed))
                                : text_of_old_driver(version_text(driver), version_text(needed)));
}

int count_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorStubLibrary) throw_old_driver();
  if (status == cudaErrorSystemDriverMismatch) throw DeviceError(text_of_mixed_driver());
  if (status == cudaErrorSystemNotReady) throw DeviceError(text_of_unready_system());
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    throw DeviceError(text_of_no_device());
  }
  check_cuda(status, "no CUDA device");
  return count;
}

/// Without what only a context knows.
DeviceDescription describe_briefly(int index) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "describing the device");
  DeviceDescription device;
  device.index = index;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory_total = properties.totalGlobalMem;
  return device;
}

/// Stands for all kernels: they are compiled for the same architectures.
__global__ void compiled_for_this_device() {}

}  // namespace

std::vector<DeviceDescription> find_devices() {
  std::vector<DeviceDescription> found;
  std::string refused;
  const int count = count_devices();
  for (int i = 0; i < count; ++i) {
    const DeviceDescription device = describe_briefly(i);
    if (device.supported()) {
      found.push_back(device);
    } else {
      refused = text_of_old_architecture(i, device.architecture());
    }
  }
  if (found.empty()) throw DeviceError("no CUDA device: " + refused);
  return found;
}

DeviceDescription describe_device(int index) {
  const int count = count_devices();
  if (index < 0 || index >= count) throw DeviceError(text_of_wrong_index(index, count));
  DeviceDescription device = describe_briefly(index);
  if (!device.supported()) {
    throw DeviceError(text_of_old_architecture(index, device.architecture()));
  }
  const cudaError_t entered = enter(index);
  if (entered == cudaErrorDevicesUnavailable) throw DeviceError(text_of_busy_device(index));
  check_cuda(entered, "opening the device");
  cudaFuncAttributes attributes;
  const cudaError_t compiled = cudaFuncGetAttributes(&attributes, compiled_for_this_device);
  if (compiled == cudaErrorNoKernelImageForDevice || compiled == cudaErrorInvalidDeviceFunction) {
    throw DeviceError(text_of_missing_code(index, device.architecture()));
  }
  check_cuda(compiled, "opening the device");
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for the device's memory");
  device.memory_free = free;
  device.memory_total = total;
  return device;
}

template <>
DeviceBuffer::OwnedMemory(int device, std::size_t bytes, const std::string& what)
    : device_(device) {
  check_cuda(enter(device), "allocating memory");
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    cudaMemGetInfo(&free, &total);
    cudaGetLastError();
    throw DeviceError(text_of_full_device(device, what, bytes, free));
  }
  check_cuda(status, "allocating memory");
  data_ = static_cast<std::byte*>(memory);
  size_ = bytes;
}

template <>
DeviceBuffer::~OwnedMemory() {
  if (data_ != nullptr) release_on(device_, [this] { cudaFree(data_); });
}

template <>
PinnedBuffer::OwnedMemory(int device, std::size_t bytes, const std::string& what)
    : device_(device) {
  check_cuda(enter(device), "pinning memory");
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw DeviceError(text_of_full_host(what, bytes));
  }
  check_cuda(status, "pinning memory");
  std::memset(memory, 0, bytes);
  data_ = static_cast<std::byte*>(memory);
  size_ = bytes;
}

template <>
PinnedBuffer::~OwnedMemory() {
  if (data_ != nullptr) release_on(device_, [this] { cudaFreeHost(data_); });
}

Event::Event(int device) : device_(device) {
  call_on(device, "making an event", [this] { return cudaEventCreate(&event_); });
}

Event::~Event() {
  if (event_ != nullptr) release_on(device_, [this] { cudaEventDestroy(event_); });
}

void Event::record(Stream stream) {
  call_on(device_, "recording an event", [&] { return cudaEventRecord(event_, stream); });
}

void Event::wait() const {
  call_on(device_, "waiting for the device", [this] { return cudaEventSynchronize(event_); });
}

bool Event::done() const {
  check_cuda(enter(device_), "asking for an event");
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_cuda(status, "asking for an event");
  return true;
}

float Event::milliseconds_since(const Event& from) const {
  float milliseconds = 0;
  call_on(device_, "timing events",
          [&] { return cudaEventElapsedTime(&milliseconds, from.event_, event_); });
  return milliseconds;
}

WorkStream::WorkStream(int device) : device_(device) {
  call_on(device, "making a stream",
          [this] { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); });
}

WorkStream::~WorkStream() {
  if (stream_ == nullptr) return;
  release_on(device_, [this] {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  });
}

Stream WorkStream::get() const {
  check_cuda(enter(device_), "entering the device");
  return stream_;
}

void WorkStream::wait_for(const Event& event) {
  call_on(device_, "waiting for an event",
          [&] { return cudaStreamWaitEvent(stream_, event.event_, 0); });
}

void WorkStream::finish() const {
  call_on(device_, "waiting for the device", [this] { return cudaStreamSynchronize(stream_); });
}

void WorkStream::copy_to_device(std::byte* to, const std::byte* from_pinned, std::size_t bytes) {
  queue_bytes(device_, bytes, "a copy to the device", [&] {
    return cudaMemcpyAsync(to, from_pinned, bytes, cudaMemcpyHostToDevice, stream_);
  });
}

void WorkStream::copy_to_host(std::byte* to_pinned, const std::byte* from, std::size_t bytes) {
  queue_bytes(device_, bytes, "a copy to the host", [&] {
    return cudaMemcpyAsync(to_pinned, from, bytes, cudaMemcpyDeviceToHost, stream_);
  });
}

void WorkStream::copy_on_device(std::byte* to, const std::byte* from, std::size_t bytes) {
  queue_bytes(device_, bytes, "a copy on the device",
              [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_); });
}

void WorkStream::zero(std::byte* to, std::size_t bytes) {
  queue_bytes(device_, bytes, "zeroing", [&] { return cudaMemsetAsync(to, 0, bytes, stream_); });
}

namespace {

/// A recorded graph until it is instantiated.
struct Recorded {
  cudaGraph_t graph = nullptr;
  ~Recorded() {
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

}  // namespace

Graph::Graph(WorkStream& stream, const std::function<void()>& queue) {
  const char* during = "recording a graph";
  const Stream captured = stream.get();
  check_cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal), during);
  Recorded recorded;
  try {
    queue();
  } catch (...) {
    cudaStreamEndCapture(captured, &recorded.graph);  // the stream is usable again
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(captured, &recorded.graph), during);
  check_cuda(cudaGraphGetNodes(recorded.graph, nullptr, &nodes_), during);
  check_cuda(cudaGraphInstantiate(&graph_, recorded.graph, 0), during);
  const cudaError_t uploaded = cudaGraphUpload(graph_, captured);
  if (uploaded != cudaSuccess) {
    cudaGraphExecDestroy(graph_);
    throw_device_error(uploaded, during);
  }
}

Graph::~Graph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

void Graph::launch(WorkStream& stream) const {
  check_cuda(cudaGraphLaunch(graph_, stream.get()), "launching a graph");
}

}  // namespace cairn::kernels::cuda
