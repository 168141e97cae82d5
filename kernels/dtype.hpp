// SPDX-License-Identifier: Apache-2.0
// bfloat16 as plain bits, usable in host and device code.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define CAIRN_HOST_DEVICE __host__ __device__
#else
#define CAIRN_HOST_DEVICE
#endif

namespace cairn {

/// The upper half of an IEEE binary32. A plain value; no arithmetic of its own.
struct Bf16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(Bf16) == 2);

CAIRN_HOST_DEVICE inline std::uint32_t float_bits(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}

CAIRN_HOST_DEVICE inline float bits_float(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

CAIRN_HOST_DEVICE inline float to_float(Bf16 x) {
  return bits_float(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Round to nearest, ties to even; NaN stays a (quiet) NaN, overflow becomes infinity.
CAIRN_HOST_DEVICE inline Bf16 to_bf16(float x) {
  const std::uint32_t u = float_bits(x);
  if ((u & 0x7fffffffU) > 0x7f800000U) {
    return Bf16{static_cast<std::uint16_t>((u >> 16) | 0x40U)};
  }
  return Bf16{static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16)};
}

}  // namespace cairn
