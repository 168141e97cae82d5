// SPDX-License-Identifier: Apache-2.0
// The model on the device that the options ask for, and the memory of its cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/cache/pools.hpp"
#include "engine/engine.hpp"
#include "model/net/backend.hpp"
#include "model/net/weights.hpp"

namespace cairn::actors {

/// A quarter of the free memory (a container's, where it has less), at most 8 GiB and at least one
/// whole context.
std::uint64_t default_cache_bytes(const model::MemoryLayout& layout, std::int32_t context_length);
/// Nine tenths of what a device has left, all of it where one whole context needs that.
std::uint64_t device_cache_bytes(std::uint64_t free_bytes, const model::MemoryLayout& layout,
                                 std::int32_t context_length);

/// What a step has room for.
struct BatchRoom {
  std::int32_t running = 0;      // sequences
  std::int32_t step_tokens = 0;  // rows, at least one for each sequence
};
/// max_running and max_step_tokens as given; what is not (0) as the device has it by default, or
/// next to that where only so it goes with the one that is given.
BatchRoom batch_room(const EngineOptions& options, bool cuda);

/// What the weights are to be loaded as: in the format that the CPU is asked for, or in bf16, which
/// a CUDA device rounds itself. Options have passed check_options.
kernels::WeightFormat format_to_load(const EngineOptions& options);

struct OpenDevice {
  std::unique_ptr<model::Backend> backend;
  BatchRoom room;                       // of the backend's steps
  std::shared_ptr<model::Arena> arena;  // null: blocks and states lie in the host's memory
  std::shared_ptr<engine::MemoryPools> pools;
};

/// Not thread-safe. Options have passed check_options.
class DeviceOpener {
 public:
  DeviceOpener(const EngineOptions& options, std::shared_ptr<const model::Weights> weights,
               std::int32_t context_length);

  /// As options.device says: "auto" takes the first CUDA device that works, else the CPU, with a
  /// line in the log that says why. Throws DeviceError (no such device, or not the memory: needed
  /// and available) and LoadError (options that this device has not).
  OpenDevice open();
  /// The device that open() chose, anew, with the arena of the backend that is gone.
  std::unique_ptr<model::Backend> open_again(const std::shared_ptr<model::Arena>& arena) const;

 private:
  OpenDevice open_any_cuda();
  OpenDevice open_cuda(int index);
  OpenDevice open_cpu();
  OpenDevice with_memory(std::unique_ptr<model::Backend> backend) const;
  std::unique_ptr<model::Backend> make_cuda(int index) const;
  std::unique_ptr<model::Backend> make_cpu() const;
  void require_cpu_options(const std::string& why) const;

  EngineOptions options_;
  std::shared_ptr<const model::Weights> weights_;
  std::int32_t context_length_;
  std::optional<int> cuda_;  // index of the chosen one; none: the CPU
};

/// Where cublaslt's algorithms are kept by default: beside the cache's directory, which holds
/// nothing else, so that what was written with one algorithm is read with the same. "" without one.
std::string gemm_record_beside(const std::string& disk_dir);

/// The index in "cuda:N"; nothing for other spellings.
std::optional<int> cuda_index(const std::string& device);

}  // namespace cairn::actors
