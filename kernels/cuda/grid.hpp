// SPDX-License-Identifier: Apache-2.0
// What the launchers' headers share: plain types, no CUDA header.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace cairn::kernels::cuda {

/// A CUDA stream (cudaStream_t): a WorkStream's (device.hpp), or null.
using Stream = CUstream_st*;

/// Thread blocks of a launch. The hardware takes 2^31 - 1, 65,535 and 65,535 at most.
struct Grid {
  std::int64_t x = 1;
  std::int32_t y = 1;
  std::int32_t z = 1;
  bool operator==(const Grid&) const = default;
  std::int64_t blocks() const { return x * y * z; }
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace cairn::kernels::cuda
