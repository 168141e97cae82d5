// SPDX-License-Identifier: Apache-2.0
// Everything that the kernels include comes before the target is raised, so that no inline function
// of a shared header is compiled for it: the linker could pick that copy for everyone.
#include <immintrin.h>

#include "kernels/cpu/shared.hpp"

#if defined(__clang__)
#pragma clang attribute push(                                                          \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma"))), \
    apply_to = function)
#else
// g++ 12 takes the deliberately undefined operands of its own intrinsics for mistakes (GCC bug
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")
#endif

#include "kernels/cpu/gemm_bf16_dot.hpp"

namespace cairn::kernels {

void shared::round_rows_bf16(const float* x, std::int64_t ldx, std::int64_t row_begin,
                             std::int64_t row_end, const RoundedRows& to) {
  RoundRowsBf16::run(x, ldx, row_begin, row_end, to);
}

void shared::gemm_rounded_bf16(const PackedMatrix& w, std::int64_t panel_begin,
                               std::int64_t panel_end, const RoundedRows& x, std::int64_t row_begin,
                               std::int64_t rows, float* y, std::int64_t ldy) {
  Gemm<Bf16DotTile>::rounded(w, panel_begin, panel_end, x, row_begin, rows, y, ldy);
}

}  // namespace cairn::kernels

#if defined(__clang__)
#pragma clang attribute pop
#endif
