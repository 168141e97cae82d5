// SPDX-License-Identifier: Apache-2.0
// The 16-bit number formats as plain bits, the same code on host and device.
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

/// IEEE binary16. A plain value; no arithmetic of its own.
struct F16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(F16) == 2);

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

CAIRN_HOST_DEVICE inline float to_float(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = x.bits & 0x3ffU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    return bits_float(sign | float_bits(static_cast<float>(mantissa) * 0x1p-24F));
  }
  if (exponent == 31) return bits_float(sign | 0x7f800000U | mantissa << 13);
  return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// As to_bf16: ties to even, NaN stays a quiet NaN, overflow (65520 and above) becomes infinity.
CAIRN_HOST_DEVICE inline F16 to_f16(float x) {
  const std::uint32_t sign = (float_bits(x) >> 16) & 0x8000U;
  const std::uint32_t u = float_bits(x) & 0x7fffffffU;
  std::uint32_t magnitude = 0;
  if (u > 0x7f800000U) {
    magnitude = 0x7e00U | ((u >> 13) & 0x3ffU);
  } else if (u >= 0x477ff000U) {
    magnitude = 0x7c00U;
  } else if (u < 0x38800000U) {
    // Below 2^-14 the result counts units of 2^-24: adding 0.5, whose last place that is, rounds.
    magnitude = float_bits(bits_float(u) + 0.5F) - float_bits(0.5F);
  } else {
    magnitude = (u - (112U << 23) + 0xfffU + ((u >> 13) & 1U)) >> 13;
  }
  return F16{static_cast<std::uint16_t>(sign | magnitude)};
}

}  // namespace cairn
