// SPDX-License-Identifier: Apache-2.0
// One fp32 lane for the arithmetic that the CPU kernels share (kernels/cpu/math_body.hpp): exp, log
// and sigmoid have the same bits on the device, in the test harness and in the CPU backend.
#pragma once

#include <cstdint>

#include "kernels/cpu/math_body.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// a b + c, rounded once. Kernels are compiled without contraction, so this is the only fma.
CAIRN_HOST_DEVICE inline float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Correctly rounded on both sides: nvcc's default for division and square root.
CAIRN_HOST_DEVICE inline float inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(1.0F, __fsqrt_rn(x));
#else
  return 1.0F / __builtin_sqrtf(x);
#endif
}

/// The lane type of math_body.hpp with one lane; its operations are those of VecPortable.
struct Lane {
  using Int = std::int32_t;
  using Mask = bool;

  float value;

  CAIRN_HOST_DEVICE static Lane set1(float x) { return {x}; }
  CAIRN_HOST_DEVICE static Lane zero() { return {0.0F}; }
  CAIRN_HOST_DEVICE static Lane add(Lane a, Lane b) { return {a.value + b.value}; }
  CAIRN_HOST_DEVICE static Lane sub(Lane a, Lane b) { return {a.value - b.value}; }
  CAIRN_HOST_DEVICE static Lane mul(Lane a, Lane b) { return {a.value * b.value}; }
  CAIRN_HOST_DEVICE static Lane div(Lane a, Lane b) { return {a.value / b.value}; }
  CAIRN_HOST_DEVICE static Lane fma(Lane a, Lane b, Lane c) {
    return {fma_rn(a.value, b.value, c.value)};
  }
  // The second operand when either is NaN.
  CAIRN_HOST_DEVICE static Lane min(Lane a, Lane b) { return a.value < b.value ? a : b; }
  CAIRN_HOST_DEVICE static Lane max(Lane a, Lane b) { return a.value > b.value ? a : b; }
  CAIRN_HOST_DEVICE static Lane negate(Lane a) {
    return {bits_float(float_bits(a.value) ^ 0x80000000U)};
  }
  CAIRN_HOST_DEVICE static Lane minus_abs(Lane a) {
    return {bits_float(float_bits(a.value) | 0x80000000U)};
  }
  CAIRN_HOST_DEVICE static Mask less(Lane a, Lane b) { return a.value < b.value; }
  CAIRN_HOST_DEVICE static Mask equal(Lane a, Lane b) { return a.value == b.value; }
  CAIRN_HOST_DEVICE static Lane select(Mask m, Lane yes, Lane no) { return m ? yes : no; }

  CAIRN_HOST_DEVICE static Int as_int(Lane a) { return static_cast<Int>(float_bits(a.value)); }
  CAIRN_HOST_DEVICE static Lane as_float(Int a) {
    return {bits_float(static_cast<std::uint32_t>(a))};
  }
  CAIRN_HOST_DEVICE static Lane to_float_lanes(Int a) { return {static_cast<float>(a)}; }
  CAIRN_HOST_DEVICE static Int iset1(Int x) { return x; }
  // Wrapping.
  CAIRN_HOST_DEVICE static Int iadd(Int a, Int b) {
    return static_cast<Int>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
  CAIRN_HOST_DEVICE static Int isub(Int a, Int b) {
    return static_cast<Int>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
  }
  CAIRN_HOST_DEVICE static Int iand(Int a, Int b) { return a & b; }
  template <int kBits>
  CAIRN_HOST_DEVICE static Int shift_left(Int a) {
    return static_cast<Int>(static_cast<std::uint32_t>(a) << kBits);
  }
  template <int kBits>
  CAIRN_HOST_DEVICE static Int shift_right(Int a) {  // arithmetic
    return a >> kBits;
  }
};

CAIRN_HOST_DEVICE inline float exp_f32(float x) { return exp_lanes(Lane{x}).value; }
CAIRN_HOST_DEVICE inline float log_f32(float x) { return log_lanes(Lane{x}).value; }
CAIRN_HOST_DEVICE inline float sigmoid_f32(float x) { return sigmoid_lanes(Lane{x}).value; }
CAIRN_HOST_DEVICE inline float silu_f32(float x) { return silu_lanes(Lane{x}).value; }
CAIRN_HOST_DEVICE inline float softplus_f32(float x) { return softplus_lanes(Lane{x}).value; }

}  // namespace cairn::kernels::cuda
