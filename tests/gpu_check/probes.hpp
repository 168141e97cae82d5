// SPDX-License-Identifier: Apache-2.0
// Kernels that find what a device can do at most, and random operands on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/dtype.hpp"

namespace cairn::gpu_check {

using kernels::cuda::Stream;

/// Does nothing: what a launch costs.
void empty_kernel(Stream stream);

/// Reads `bytes` (a multiple of 128 KiB) once, 16 bytes a lane, eight loads under way. `sink` is
/// never written.
void stream_read(Stream stream, const std::byte* from, std::int64_t bytes, std::int64_t blocks,
                 float* sink);

/// Multiplies fragments that stay in registers: 8 independent products of 16 x 8 x 16 in each of 8
/// warps a block, `rounds` times. Cycles of block 0 go to `cycles`.
void matrix_rate(Stream stream, std::int64_t blocks, std::int32_t rounds, std::int64_t* cycles,
                 float* sink);
constexpr double matrix_operations(std::int64_t blocks, std::int32_t rounds) {
  return static_cast<double>(blocks) * rounds * 8 * 8 * (2.0 * 16 * 8 * 16);
}

/// Values in [-1, 1) made of `seed` and their index. `count` is a multiple of 8.
void fill_random(Stream stream, Bf16* to, std::int64_t count, std::uint32_t seed);
void fill_random(Stream stream, float* to, std::int64_t count, std::uint32_t seed);
/// Any byte but -128. `count` is a multiple of 8.
void fill_random(Stream stream, std::int8_t* to, std::int64_t count, std::uint32_t seed);

}  // namespace cairn::gpu_check
