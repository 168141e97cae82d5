// SPDX-License-Identifier: Apache-2.0
// Rounding of sixteen lanes to bf16, once for every instruction set.
#pragma once

#include "kernels/cpu/codegen.hpp"

namespace cairn::kernels {

/// x rounded to bf16, to nearest, ties to even; one NaN for all, which upper halves hold whole.
template <class V>
CAIRN_INLINE V round_bf16_lanes(V x) {
  const auto bits = V::as_int(x);
  const auto odd = V::iand(V::template shift_right<16>(bits), V::iset1(1));
  const auto sum = V::iadd(bits, V::iadd(odd, V::iset1(0x7fff)));
  return V::select(V::equal(x, x), V::as_float(V::iand(sum, V::iset1(~0xffff))),
                   V::set1(__builtin_nanf("")));
}

}  // namespace cairn::kernels
