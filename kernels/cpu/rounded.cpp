// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/rounded.hpp"

#include "base/check.hpp"

namespace cairn::kernels {
namespace {

// Whole cache lines of either type, and never a multiple of 4096 bytes: rows would share cache
// sets.
std::int64_t padded(std::int64_t k) {
  const std::int64_t aligned = (k + 31) / 32 * 32;
  return aligned % 1024 == 0 ? aligned + 32 : aligned;
}

}  // namespace

std::size_t RoundedRows::bytes(std::int64_t rows, std::int64_t k) {
  return static_cast<std::size_t>(rows * padded(k)) * sizeof(float);
}

RoundedRows RoundedRows::over(std::span<std::byte> memory, std::int64_t rows, std::int64_t k) {
  check(rows >= 0 && k >= 0 && memory.size() >= bytes(rows, k), "rounded rows fit their memory");
  return {k, padded(k), memory.data()};
}

}  // namespace cairn::kernels
