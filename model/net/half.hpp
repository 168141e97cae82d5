// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/dtype.hpp"

namespace cairn::model {

/// IEEE binary16 bits, widened exactly.
inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return bits_float(sign | 0x7F800000U | mantissa << 13);
  return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

}  // namespace cairn::model
