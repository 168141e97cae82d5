// SPDX-License-Identifier: Apache-2.0
// What the SIMT tests share: lambdas as kernels, and expected faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "tests/simt/memory.hpp"
#include "tests/support/catch.hpp"

namespace cairn::simt {

template <int kThreadCount, std::size_t kBytes, class Body>
struct LambdaKernel {
  using Args = const Body*;
  static constexpr const char* kName = "lambda";
  static constexpr int kThreads = kThreadCount;
  struct alignas(16) Shared {
    std::byte bytes[kBytes];
  };
  static void run(const Args& body, Shared& shared) { (*body)(shared.bytes); }
};

/// Runs body(shared memory) for each thread.
template <int kThreads, std::size_t kSharedBytes = 16, class Body>
void run_threads(const kernels::cuda::Grid& grid, const Body& body) {
  kernels::cuda::launch<LambdaKernel<kThreads, kSharedBytes, Body>>(grid, nullptr, &body);
}

/// The message of the Fault that run_threads throws; "" when there is none.
template <int kThreads, std::size_t kSharedBytes = 16, class Body>
std::string fault_of(const Body& body) {
  try {
    run_threads<kThreads, kSharedBytes>({1}, body);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace cairn::simt
