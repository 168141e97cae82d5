// SPDX-License-Identifier: Apache-2.0
// Two vectors of sixteen lanes that take every step together: each hides the other's latencies,
// which compilers do not arrange by themselves. The including file enables the instruction set.
#pragma once

#include "kernels/cpu/codegen.hpp"

namespace cairn::kernels {

/// Lanes 0..15 in a, 16..31 in b; the operations of V that math_body.hpp needs.
template <class V>
struct Pair {
  struct Int {
    typename V::Int a, b;
  };
  struct Mask {
    typename V::Mask a, b;
  };

  V a, b;

  CAIRN_INLINE static Pair load(const float* p) { return {V::load(p), V::load(p + 16)}; }
  CAIRN_INLINE void store(float* p) const {
    a.store(p);
    b.store(p + 16);
  }
  CAIRN_INLINE static Pair set1(float x) { return {V::set1(x), V::set1(x)}; }
  CAIRN_INLINE static Pair zero() { return {V::zero(), V::zero()}; }

  CAIRN_INLINE static Pair add(Pair x, Pair y) { return {V::add(x.a, y.a), V::add(x.b, y.b)}; }
  CAIRN_INLINE static Pair sub(Pair x, Pair y) { return {V::sub(x.a, y.a), V::sub(x.b, y.b)}; }
  CAIRN_INLINE static Pair mul(Pair x, Pair y) { return {V::mul(x.a, y.a), V::mul(x.b, y.b)}; }
  CAIRN_INLINE static Pair div(Pair x, Pair y) { return {V::div(x.a, y.a), V::div(x.b, y.b)}; }
  CAIRN_INLINE static Pair max(Pair x, Pair y) { return {V::max(x.a, y.a), V::max(x.b, y.b)}; }
  CAIRN_INLINE static Pair fma(Pair x, Pair y, Pair z) {
    return {V::fma(x.a, y.a, z.a), V::fma(x.b, y.b, z.b)};
  }
  CAIRN_INLINE static Pair minus_abs(Pair x) { return {V::minus_abs(x.a), V::minus_abs(x.b)}; }
  CAIRN_INLINE static Pair scale(Pair x, Pair n) requires requires(V v) { V::scale(v, v); }
  { return {V::scale(x.a, n.a), V::scale(x.b, n.b)}; }

  CAIRN_INLINE static Mask less(Pair x, Pair y) { return {V::less(x.a, y.a), V::less(x.b, y.b)}; }
  CAIRN_INLINE static Pair select(Mask m, Pair yes, Pair no) {
    return {V::select(m.a, yes.a, no.a), V::select(m.b, yes.b, no.b)};
  }

  CAIRN_INLINE static Int as_int(Pair x) { return {V::as_int(x.a), V::as_int(x.b)}; }
  CAIRN_INLINE static Pair as_float(Int x) { return {V::as_float(x.a), V::as_float(x.b)}; }
  template <int kBits>
  CAIRN_INLINE static Int shift_left(Int x) {
    return {V::template shift_left<kBits>(x.a), V::template shift_left<kBits>(x.b)};
  }
};

}  // namespace cairn::kernels
