// SPDX-License-Identifier: Apache-2.0
// What VDPBF16PS multiplies: attention over a bf16 cache, products of rounded rows.
//
// Everything that the kernels include comes before the target is raised, so that no inline function
// of a shared header is compiled for it: the linker could pick that copy for everyone.
#include <immintrin.h>

#include "kernels/cpu/flush_denormals.hpp"
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

#include "kernels/cpu/attention_body.hpp"
#include "kernels/cpu/gemm_bf16_dot.hpp"
#include "kernels/cpu/vec_avx512.hpp"

namespace cairn::kernels {
namespace {

/// Products of rounded factors with a bf16 cache by VDPBF16PS: the odd products are added first,
/// then the even ones, one rounding each.
struct DotProducts {
  using Lanes = Vec512;
  static constexpr KvType kType = KvType::bf16;
  static constexpr bool kRounds = true;
  static constexpr int kPairFloats = 1;

  CAIRN_INLINE static void store_factors(Vec512 first, Vec512 second, float* to) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(second.v, first.v));
  }

  template <int kHeads, int kVectors>
  CAIRN_INLINE static void add(const float* const* x, std::int64_t pair, const std::byte* const* y,
                               std::int64_t /*odd*/, Vec512 (*acc)[kVectors]) {
    __m512bh words[kVectors];
    CAIRN_UNROLL
    for (int c = 0; c < kVectors; ++c) words[c] = (__m512bh)_mm512_loadu_si512(y[c]);
    CAIRN_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const auto factor = (__m512bh)_mm512_set1_ps(x[h][pair]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) {
        acc[h][c].v = _mm512_dpbf16_ps(acc[h][c].v, factor, words[c]);
      }
    }
  }
};

bool by_dots(const AttentionArgs& a) {
  return a.layout.type == KvType::bf16 && a.activations == Activations::bf16;
}

}  // namespace

void shared::attention_dot(const AttentionArgs& a) {
  by_dots(a) ? AttentionRows<DotProducts>::run(a) : kAvx512.attention(a);
}
void shared::attention_range_dot(const AttentionArgs& a, std::int64_t range, float* partial) {
  by_dots(a) ? AttentionRows<DotProducts>::range(a, range, partial)
             : kAvx512.attention_range(a, range, partial);
}

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
