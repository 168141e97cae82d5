// SPDX-License-Identifier: Apache-2.0
// Everything that the kernels include comes before the target is raised, so that no inline function
// of a shared header is compiled for it: the linker could pick that copy for everyone.
#include <immintrin.h>

#include "kernels/cpu/shared.hpp"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#include "kernels/cpu/gemm_avx2.hpp"
#include "kernels/cpu/table_body.hpp"
#include "kernels/cpu/vec_avx2.hpp"

namespace cairn::kernels {

constinit const Ops shared::kAvx2 = make_table<Vec256, TileAvx2>(
    Isa::avx2, {shared::quantise_rows_avx2, shared::gemm_quantised_avx2});

}  // namespace cairn::kernels

#if defined(__clang__)
#pragma clang attribute pop
#endif
