// SPDX-License-Identifier: Apache-2.0
// Weights of a distribution and their exact sum, once for every instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/elementwise_body.hpp"
#include "kernels/cpu/math_body.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::kernels {

/// A weight, up to 2^40, is cut in two numbers that 32-bit lanes can add up: whole steps of
/// 2^20, and a rest from -2^19 to 2^19. A float plus kStep or kRest has the nearest whole number in
/// its low bits (kRest: of either sign), so a rest is rounded as weight_of rounds. Lanes add up
/// those floats' bits as they are; the constant's part is taken off at the end.
template <class V>
struct Weigh {
  static std::uint64_t run(const float* x, std::int64_t n, const WeightArgs& args, float* w) {
    const bool all = args.from == -kInfinity && !(args.min_p > 0) && w == nullptr;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < n; i += kChunk) {
      const std::int64_t count = n - i < kChunk ? n - i : kChunk;
      float* to = w == nullptr ? nullptr : w + i;
      sum += all ? chunk<false>(x + i, count, args, to) : chunk<true>(x + i, count, args, to);
    }
    return sum;
  }

 private:
  using Int = typename V::Int;
  static constexpr float kInfinity = __builtin_inff();
  static constexpr float kNoWeight = -87.0F;  // e^x is nothing beside 2^-40 there
  static constexpr float kStep = 0x1p+23F;
  static constexpr float kRest = 0x1.8p+23F;
  static constexpr std::int64_t kChunk = 16 * 2048;  // a lane's sum of rests stays below 2^31

  template <bool kSome>
  static std::uint64_t chunk(const float* x, std::int64_t n, const WeightArgs& args, float* w) {
    Int steps = V::iset1(0);
    Int rests = V::iset1(0);
    for (std::int64_t i = 0; i < n; i += 16) {
      V v = Elementwise<V>::get(x, i, n);
      if (n - i < 16) v = V::select(V::first_n(static_cast<int>(n - i)), v, V::set1(-kInfinity));
      v = shares<kSome>(v, args);
      const V step = V::fma(v, V::set1(0x1p+20F), V::set1(kStep));
      const V whole = V::sub(step, V::set1(kStep));
      const V rest =
          V::fma(V::fma(whole, V::set1(-0x1p-20F), v), V::set1(0x1p+40F), V::set1(kRest));
      steps = V::iadd(steps, V::as_int(step));
      rests = V::iadd(rests, V::as_int(rest));
      if (!kSome || w == nullptr) continue;
      const V rounded = V::fma(whole, V::set1(0x1p+20F), V::sub(rest, V::set1(kRest)));
      Elementwise<V>::put(rounded, w, i, n);
    }
    const auto vectors = static_cast<std::uint32_t>((n + 15) / 16);
    return (sum<std::uint32_t>(steps, vectors * float_bits(kStep)) << 20) +
           sum<std::int32_t>(rests, vectors * float_bits(kRest));
  }

  /// Weights as shares of the largest, not rounded yet.
  template <bool kSome>
  CAIRN_INLINE static V shares(V x, const WeightArgs& args) {
    const V exponent = V::mul(V::sub(x, V::set1(args.max)), V::set1(args.inverse_temperature));
    V e = exp_normal_lanes(V::max(exponent, V::set1(kNoWeight)));  // which replaces a NaN
    if (kSome) {
      e = V::select(V::less(x, V::set1(args.from)), V::zero(), e);
      e = V::select(V::less(e, V::set1(args.min_p > 1.0F ? 1.0F : args.min_p)), V::zero(), e);
    }
    return e;
  }

  /// Of the lanes as numbers T, each less `offset`.
  template <class T>
  static std::uint64_t sum(Int x, std::uint32_t offset) {
    float lane[16];
    V::as_float(x).store(lane);
    std::uint64_t sum = 0;
    for (const float l : lane) {
      sum += static_cast<std::uint64_t>(static_cast<T>(float_bits(l) - offset));
    }
    return sum;
  }
};

}  // namespace cairn::kernels
