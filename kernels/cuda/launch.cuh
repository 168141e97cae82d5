// SPDX-License-Identifier: Apache-2.0
// What every kernel includes. nvcc compiles the kernels for the device; the host compiler compiles
// the same source for the tests (host_threads.hpp).
//
// A kernel is a struct:
//   struct Example {
//     using Args = ExampleArgs;                      // passed by value
//     static constexpr const char* kName = "example";
//     static constexpr int kThreads = 256;           // of every block: bound and launch in one
//     struct Shared { float partial[8]; };           // optional: its dynamic shared memory
//     static constexpr int kBlocksPerMultiprocessor = 2;  // optional: second launch bound
//     static __device__ void run(const Args& args, Shared& shared);  // run(args) without Shared
//   };
// and launch<Example>(grid, stream, args) runs it. docs/gpu.md is the guide.
#pragma once

#include <cstddef>
#include <string>

#include "base/check.hpp"
#include "kernels/cuda/grid.hpp"

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "kernels/cuda/errors.cuh"
#else
#include "kernels/cuda/host_threads.hpp"
#endif

namespace cairn::kernels::cuda {

constexpr unsigned kFullMask = 0xffffffffU;

/// Shared memory that a block may have on every supported architecture (sm_75).
constexpr std::size_t kMaxSharedBytes = 64 * 1024;

template <class Kernel>
concept HasShared = requires {
  typename Kernel::Shared;
};
template <class Kernel>
constexpr std::size_t kSharedBytes = 0;
template <HasShared Kernel>
constexpr std::size_t kSharedBytes<Kernel> = sizeof(typename Kernel::Shared);

template <class Kernel>
concept HasBlockBound = requires {
  Kernel::kBlocksPerMultiprocessor;
};
template <class Kernel>
constexpr int kBlockBound = 1;
template <HasBlockBound Kernel>
constexpr int kBlockBound<Kernel> = Kernel::kBlocksPerMultiprocessor;

template <class Kernel>
__device__ __forceinline__ void run_thread(const typename Kernel::Args& args,
                                           [[maybe_unused]] std::byte* shared) {
  if constexpr (HasShared<Kernel>) {
    Kernel::run(args, *reinterpret_cast<typename Kernel::Shared*>(shared));
  } else {
    Kernel::run(args);
  }
}

inline void check_grid(const char* kernel, const Grid& grid) {
  const bool fits = grid.x >= 0 && grid.x <= 0x7fffffff && grid.y >= 0 && grid.y <= 65535 &&
                    grid.z >= 0 && grid.z <= 65535;
  if (!fits) check(false, std::string("launch of ") + kernel + ": the grid is beyond the hardware");
}

#if defined(__CUDACC__)

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, kBlockBound<Kernel>)
    run_kernel(const __grid_constant__ typename Kernel::Args args) {
  extern __shared__ __align__(128) std::byte dynamic_shared[];
  run_thread<Kernel>(args, dynamic_shared);
}

/// Queues the kernel on `stream`; nothing is queued for an empty grid. Throws DeviceError when the
/// launch is refused, DeviceLost when the device is lost, InvariantError for a grid beyond the
/// hardware's limits. Thread-safe.
template <class Kernel>
void launch(const Grid& grid, Stream stream, const typename Kernel::Args& args) {
  static_assert(Kernel::kThreads % 32 == 0 && Kernel::kThreads <= 1024);
  static_assert(kSharedBytes<Kernel> <= kMaxSharedBytes);
  check_grid(Kernel::kName, grid);
  if (grid.blocks() == 0) return;
  const auto entry = reinterpret_cast<const void*>(&run_kernel<Kernel>);
  cudaError_t status = cudaSuccess;
  constexpr std::size_t kBytes = kSharedBytes<Kernel>;
  if constexpr (kBytes > 48 * 1024) {
    status = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kBytes));
  }
  if (status == cudaSuccess) {
    const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                      static_cast<unsigned>(grid.z));
    void* arguments[] = {const_cast<typename Kernel::Args*>(&args)};
    status = cudaLaunchKernel(entry, blocks, dim3(Kernel::kThreads), arguments, kBytes, stream);
  }
  if (status != cudaSuccess) {
    throw_device_error(status, std::string("launch of ") + Kernel::kName);
  }
}

#else

template <class Kernel>
void launch(const Grid& grid, Stream stream, const typename Kernel::Args& args) {
  static_assert(Kernel::kThreads % 32 == 0 && Kernel::kThreads <= 1024);
  static_assert(kSharedBytes<Kernel> <= kMaxSharedBytes);
  check_grid(Kernel::kName, grid);
  if (grid.blocks() == 0) return;
  simt::LaunchShape shape;
  shape.kernel = Kernel::kName;
  shape.grid = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                static_cast<unsigned>(grid.z)};
  shape.threads = Kernel::kThreads;
  shape.shared_bytes = kSharedBytes<Kernel>;
  simt::queue(stream, Kernel::kName, [shape, args] {
    typename Kernel::Args copy = args;  // a run of the kernel sees its own copy, as on the device
    simt::run(
        shape,
        [](void* context) {
          run_thread<Kernel>(*static_cast<typename Kernel::Args*>(context), simt::shared_memory());
        },
        &copy);
  });
}

#endif

}  // namespace cairn::kernels::cuda
