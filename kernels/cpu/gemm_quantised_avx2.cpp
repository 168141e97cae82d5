// SPDX-License-Identifier: Apache-2.0
// Everything that the kernels include comes before the target is raised, so that no inline function
// of a shared header is compiled for it: the linker could pick that copy for everyone.
#include <immintrin.h>

#include "kernels/cpu/quantised.hpp"
#include "kernels/cpu/shared.hpp"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#include "kernels/cpu/gemm_quantised_avx2.hpp"
#include "kernels/cpu/gemm_quantised_body.hpp"
#include "kernels/cpu/quantise_rows_avx2.hpp"

namespace cairn::kernels {

void shared::gemm_quantised_avx2(const PackedMatrix& w, std::int64_t panel_begin,
                                 std::int64_t panel_end, const QuantRows& x, std::int64_t row_begin,
                                 std::int64_t rows, float* y, std::int64_t ldy) {
  GemmQuantised<QuantTileAvx2>::run(w, panel_begin, panel_end, x, row_begin, rows, y, ldy);
}

void shared::quantise_rows_avx2(const float* x, std::int64_t ldx, std::int64_t row_begin,
                                std::int64_t row_end, const QuantRows& to) {
  QuantiseRowsAvx2::run(x, ldx, row_begin, row_end, to);
}

}  // namespace cairn::kernels

#if defined(__clang__)
#pragma clang attribute pop
#endif
