// SPDX-License-Identifier: Apache-2.0
// exp, log and their relatives on sixteen lanes, once for every instruction set.
#pragma once

#include "kernels/cpu/codegen.hpp"

namespace cairn::kernels {

/// e^x = p 2^n for x within (-104, 89): x = n ln 2 + r, |r| <= ln 2 / 2, Taylor series of e^r to
/// degree 7 (remainder 5e-9 of the result). Error of p below 1 ulp.
template <class V>
struct ExpParts {
  V p;
  V n;        // a whole number
  V shifted;  // its low bits are n + kBias
};
template <int kBias, class V>
CAIRN_INLINE ExpParts<V> exp_parts(V x) {
  static_assert(kBias % 2 == 0, "ties to even must stay where they are");
  // 1.5 * 2^23: adding it leaves the integer in the low bits.
  const V magic = V::set1(12582912.0F + kBias);
  const V shifted = V::fma(x, V::set1(0x1.715476p+0F), magic);
  const V n = V::sub(shifted, magic);
  V r = V::fma(n, V::set1(-0x1.62e4p-1F), x);  // ln 2 in two parts; the first has 17 bits: exact
  r = V::fma(n, V::set1(-0x1.7f7d1cp-20F), r);
  V p = V::fma(r, V::set1(1.0F / 5040.0F), V::set1(1.0F / 720.0F));
  p = V::fma(p, r, V::set1(1.0F / 120.0F));
  p = V::fma(p, r, V::set1(1.0F / 24.0F));
  p = V::fma(p, r, V::set1(1.0F / 6.0F));
  p = V::fma(p, r, V::set1(0.5F));
  p = V::fma(V::mul(r, r), p, r);
  p = V::add(p, V::set1(1.0F));
  return {p, n, shifted};
}
/// n of exp_parts<0>.
template <class V>
CAIRN_INLINE typename V::Int exponent(const ExpParts<V>& e) {
  return V::isub(V::as_int(e.shifted), V::as_int(V::set1(12582912.0F)));
}

/// e^x, scaled in two exact steps so that results below 2^-126 are rounded once.
template <class V>
CAIRN_INLINE V exp_lanes(V x) {
  // min(c, x) keeps x when it is NaN. The bounds lie beyond overflow and half the smallest
  // denormal.
  x = V::max(V::set1(-104.0F), V::min(V::set1(89.0F), x));
  const ExpParts<V> e = exp_parts<0>(x);
  const auto n = exponent(e);
  const auto half = V::template shift_right<1>(n);
  const auto rest = V::isub(n, half);
  const auto bias = V::iset1(127);
  const V scale_a = V::as_float(V::template shift_left<23>(V::iadd(half, bias)));
  const V scale_b = V::as_float(V::template shift_left<23>(V::iadd(rest, bias)));
  return V::mul(V::mul(e.p, scale_a), scale_b);
}

/// The same bits for x from -87 to 0, where no result is denormal.
template <class V>
CAIRN_INLINE V exp_normal_lanes(V x) {
  const ExpParts<V> e = exp_parts<0>(x);
  return V::mul(e.p, V::as_float(V::template shift_left<23>(V::iadd(exponent(e), V::iset1(127)))));
}

/// The same bits for x that is not above 0, and for NaN.
template <class V>
CAIRN_INLINE V exp_falling_lanes(V x) {
  x = V::max(V::set1(-104.0F), x);  // keeps x when it is NaN
  const ExpParts<V> e = exp_parts<192>(x);
  if constexpr (requires { V::scale(e.p, e.n); }) {
    return V::scale(e.p, e.n);
  } else {
    // n + 192 as an exponent is 2^(n + 65): normal, so that only the last step rounds.
    const V scaled = V::mul(e.p, V::as_float(V::template shift_left<23>(V::as_int(e.shifted))));
    return V::mul(scaled, V::set1(0x1p-65F));
  }
}

/// ln x. x = 2^e m with m in [sqrt 1/2, sqrt 2), ln m = 2 atanh(s), s = (m - 1) / (m + 1), odd
/// series to s^11 (remainder 5e-11). Error below 2 ulp. -inf at 0, NaN below it, inf and NaN pass.
template <class V>
CAIRN_INLINE V log_lanes(V x) {
  const auto tiny = V::less(x, V::set1(0x1p-126F));
  const V scaled = V::select(tiny, V::mul(x, V::set1(0x1p+24F)), x);
  const auto bits = V::as_int(scaled);
  // Subtracting the bits of sqrt 1/2 makes the exponent field count from there.
  const auto offset = V::isub(bits, V::iset1(0x3f3504f3));
  V e = V::to_float_lanes(V::template shift_right<23>(offset));
  e = V::select(tiny, V::sub(e, V::set1(24.0F)), e);
  const V m = V::as_float(V::iadd(V::iand(offset, V::iset1(0x007fffff)), V::iset1(0x3f3504f3)));
  const V f = V::sub(m, V::set1(1.0F));
  const V s = V::div(f, V::add(f, V::set1(2.0F)));
  const V z = V::mul(s, s);
  V p = V::fma(z, V::set1(2.0F / 11.0F), V::set1(2.0F / 9.0F));
  p = V::fma(p, z, V::set1(2.0F / 7.0F));
  p = V::fma(p, z, V::set1(2.0F / 5.0F));
  p = V::fma(p, z, V::set1(2.0F / 3.0F));
  // ln(1 + f) = f - (f^2/2 - s (f^2/2 + z p)): f is exact, the rest is small beside it.
  const V half_square = V::mul(V::mul(f, f), V::set1(0.5F));
  V rest = V::fma(s, V::fma(z, p, half_square), V::mul(e, V::set1(-0x1.05c610p-29F)));
  rest = V::sub(half_square, rest);
  V y = V::sub(f, rest);
  const V high = V::mul(e, V::set1(0x1.62e430p-1F));
  // e ln 2 (high part) has 24 bits times at most 8: not exact, so its rounding error is carried
  // along.
  const V lost = V::fma(e, V::set1(0x1.62e430p-1F), V::negate(high));
  const V sum = V::add(high, y);
  const V error = V::sub(y, V::sub(sum, high));  // |high| >= |y| or high is 0
  y = V::add(sum, V::add(error, lost));
  const V infinity = V::set1(__builtin_inff());
  y = V::select(V::equal(x, infinity), infinity, y);
  y = V::select(V::equal(x, V::zero()), V::negate(infinity), y);
  y = V::select(V::less(x, V::zero()), V::set1(__builtin_nanf("")), y);
  return V::select(V::equal(x, x), y, x);
}

/// 1 / (1 + e^-x), through e^-|x| so that both tails keep their relative accuracy.
template <class V>
CAIRN_INLINE V sigmoid_lanes(V x) {
  const V one = V::set1(1.0F);
  const V e = exp_falling_lanes(V::minus_abs(x));
  return V::div(V::select(V::less(x, V::zero()), e, one), V::add(one, e));
}

template <class V>
CAIRN_INLINE V silu_lanes(V x) {
  return V::mul(x, sigmoid_lanes(x));
}

/// ln(1 + e^x); x itself above 20. The quotient repairs what 1 + e lost to rounding.
template <class V>
CAIRN_INLINE V softplus_lanes(V x) {
  const V one = V::set1(1.0F);
  const V e = exp_lanes(x);
  const V u = V::add(one, e);
  const V grown = V::sub(u, one);
  const V y = V::select(V::equal(grown, V::zero()), e, V::div(V::mul(log_lanes(u), e), grown));
  return V::select(V::less(V::set1(20.0F), x), x, y);
}

}  // namespace cairn::kernels
