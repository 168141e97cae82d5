// SPDX-License-Identifier: Apache-2.0
// Sixteen fp32 lanes in plain C++: the reference that the SIMD versions repeat operation by
// operation.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/dtype.hpp"

namespace cairn::kernels {
namespace {

/// Lanes of int32, for exponents.
struct IntPortable {
  std::int32_t lane[16];
};

/// Lane conditions: all ones or zero.
struct MaskPortable {
  bool lane[16];
};

/// See body files for how it is used; every operation is IEEE binary32, round to nearest, lane by
/// lane.
struct VecPortable {
  using Int = IntPortable;
  using Mask = MaskPortable;
  // Tile shapes that suit the register file.
  static constexpr int kDeltaVectors = 1;
  static constexpr int kAttentionHeads = 1;
  static constexpr int kAttentionVectors = 1;

  float lane[16];

  static VecPortable load(const float* p) {
    VecPortable r;
    std::memcpy(r.lane, p, sizeof r.lane);
    return r;
  }
  static VecPortable load_n(const float* p, int n) {
    VecPortable r{};
    std::memcpy(r.lane, p, static_cast<std::size_t>(n) * sizeof(float));
    return r;
  }
  /// What the low halves of 16 words of two bf16 widen to, and the high halves.
  static VecPortable load_low(const void* p) {
    VecPortable r = load(static_cast<const float*>(p));
    for (float& lane : r.lane) lane = bits_float(float_bits(lane) << 16);
    return r;
  }
  static VecPortable load_high(const void* p) {
    VecPortable r = load(static_cast<const float*>(p));
    for (float& lane : r.lane) lane = bits_float(float_bits(lane) & 0xffff0000U);
    return r;
  }
  static VecPortable set1(float x) {
    VecPortable r;
    for (float& lane : r.lane) lane = x;
    return r;
  }
  static VecPortable zero() { return set1(0.0F); }
  void store(float* p) const { std::memcpy(p, lane, sizeof lane); }
  void store_n(float* p, int n) const {
    std::memcpy(p, lane, static_cast<std::size_t>(n) * sizeof(float));
  }
  float first() const { return lane[0]; }

#define CAIRN_LANES(name, expression)                                   \
  static VecPortable name(const VecPortable& a, const VecPortable& b) { \
    VecPortable r;                                                      \
    for (int i = 0; i < 16; ++i) r.lane[i] = (expression);              \
    return r;                                                           \
  }
  CAIRN_LANES(add, a.lane[i] + b.lane[i])
  CAIRN_LANES(sub, a.lane[i] - b.lane[i])
  CAIRN_LANES(mul, a.lane[i] * b.lane[i])
  CAIRN_LANES(div, a.lane[i] / b.lane[i])
  // As minps and maxps: the second operand when either is NaN.
  CAIRN_LANES(min, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i])
  CAIRN_LANES(max, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i])
#undef CAIRN_LANES

  /// a b + c, rounded once.
  static VecPortable fma(const VecPortable& a, const VecPortable& b, const VecPortable& c) {
    VecPortable r;
    for (int i = 0; i < 16; ++i) r.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return r;
  }
  static VecPortable sqrt(const VecPortable& a) {
    VecPortable r;
    for (int i = 0; i < 16; ++i) r.lane[i] = __builtin_sqrtf(a.lane[i]);
    return r;
  }
  static VecPortable negate(const VecPortable& a) {
    VecPortable r;
    for (int i = 0; i < 16; ++i) r.lane[i] = bits_float(float_bits(a.lane[i]) ^ 0x80000000U);
    return r;
  }
  static VecPortable minus_abs(const VecPortable& a) {
    VecPortable r;
    for (int i = 0; i < 16; ++i) r.lane[i] = bits_float(float_bits(a.lane[i]) | 0x80000000U);
    return r;
  }

  static Mask less(const VecPortable& a, const VecPortable& b) {
    Mask r;
    for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] < b.lane[i];
    return r;
  }
  static Mask equal(const VecPortable& a, const VecPortable& b) {
    Mask r;
    for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] == b.lane[i];
    return r;
  }
  /// The first n lanes.
  static Mask first_n(int n) {
    Mask r;
    for (int i = 0; i < 16; ++i) r.lane[i] = i < n;
    return r;
  }
  static int bits(const Mask& m) {
    int r = 0;
    for (int i = 0; i < 16; ++i) r |= static_cast<int>(m.lane[i]) << i;
    return r;
  }
  static VecPortable select(const Mask& m, const VecPortable& yes, const VecPortable& no) {
    VecPortable r;
    for (int i = 0; i < 16; ++i) r.lane[i] = m.lane[i] ? yes.lane[i] : no.lane[i];
    return r;
  }

  static Int as_int(const VecPortable& a) {
    Int r;
    std::memcpy(r.lane, a.lane, sizeof r.lane);
    return r;
  }
  static VecPortable as_float(const Int& a) {
    VecPortable r;
    std::memcpy(r.lane, a.lane, sizeof r.lane);
    return r;
  }
  static VecPortable to_float_lanes(const Int& a) {
    VecPortable r;
    for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<float>(a.lane[i]);
    return r;
  }
  static Int iset1(std::int32_t x) {
    Int r;
    for (std::int32_t& lane : r.lane) lane = x;
    return r;
  }
  // Wrapping, as the SIMD integer instructions.
  static Int iadd(const Int& a, const Int& b) {
    Int r;
    for (int i = 0; i < 16; ++i) {
      r.lane[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.lane[i]) +
                                            static_cast<std::uint32_t>(b.lane[i]));
    }
    return r;
  }
  static Int isub(const Int& a, const Int& b) {
    Int r;
    for (int i = 0; i < 16; ++i) {
      r.lane[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.lane[i]) -
                                            static_cast<std::uint32_t>(b.lane[i]));
    }
    return r;
  }
  static Int iand(const Int& a, const Int& b) {
    Int r;
    for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] & b.lane[i];
    return r;
  }
  template <int kBits>
  static Int shift_left(const Int& a) {
    Int r;
    for (int i = 0; i < 16; ++i) {
      r.lane[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.lane[i]) << kBits);
    }
    return r;
  }
  template <int kBits>
  static Int shift_right(const Int& a) {  // arithmetic
    Int r;
    for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] >> kBits;
    return r;
  }

  /// Lanes folded by halves: 8, 4, 2, 1.
  static float reduce_add(const VecPortable& a) {
    float t[16];
    std::memcpy(t, a.lane, sizeof t);
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
    }
    return t[0];
  }
  static float reduce_max(const VecPortable& a) {
    float t[16];
    std::memcpy(t, a.lane, sizeof t);
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
    }
    return t[0];
  }
};

}  // namespace
}  // namespace cairn::kernels
