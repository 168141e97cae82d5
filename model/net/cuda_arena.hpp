// SPDX-License-Identifier: Apache-2.0
// Device memory of blocks and states, and its copies to and from the host.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "model/net/backend.hpp"
#include "model/net/cuda_staging.hpp"

namespace cairn::model {

/// Copies run on a stream of their own, behind the work that its backend had queued when they were
/// asked for; those of memory that is not pinned through two pinned areas. May outlive the backend.
class CudaArena final : public Arena {
 public:
  CudaArena(int device, std::size_t bytes, std::shared_ptr<LastWork> work);

  std::byte* data() const override { return memory_.data(); }
  std::size_t size() const override { return memory_.size(); }
  void read(const std::byte* from, std::span<std::byte> to) override;
  void write(std::span<const std::byte> from, std::byte* to) override;
  std::shared_ptr<std::byte> host_memory(std::size_t bytes) override;

  int device() const { return device_; }
  /// Copies wait for this work from now on.
  void follow(std::shared_ptr<LastWork> work);

 private:
  void begin(const std::byte* at, std::size_t bytes);
  bool is_pinned(std::span<const std::byte> host) const;  // by host_memory

  int device_;
  kernels::cuda::DeviceBuffer memory_;
  std::mutex mutex_;  // of all below
  std::shared_ptr<LastWork> work_;
  StagingAreas areas_;
  std::vector<std::weak_ptr<kernels::cuda::PinnedBuffer>> pinned_;
  kernels::cuda::WorkStream stream_;
};

}  // namespace cairn::model
