// SPDX-License-Identifier: Apache-2.0
// Everything that the kernels include comes before the target is raised, so that no inline function
// of a shared header is compiled for it: the linker could pick that copy for everyone.
#include <immintrin.h>

#include "kernels/cpu/shared.hpp"

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
// g++ 12 takes the deliberately undefined operands of its own intrinsics for mistakes (GCC bug
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif

#include "kernels/cpu/table_body.hpp"
#include "kernels/cpu/vec_avx512.hpp"

namespace cairn::kernels {

constinit const Ops shared::kAvx512 = make_table<Vec512, WideTile<Vec512>>(
    Isa::avx512, {shared::quantise_rows_avx2, shared::gemm_quantised_avx2});

}  // namespace cairn::kernels

#if defined(__clang__)
#pragma clang attribute pop
#endif
