// SPDX-License-Identifier: Apache-2.0
// Sixteen fp32 lanes in one AVX-512 register. The including file enables the instruction set.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/dtype.hpp"

#if !defined(__clang__)  // g++ wants it here as well, or passing registers would be another ABI
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif

namespace cairn::kernels {
namespace {

/// VecPortable's interface; lane for lane the same bits.
struct Vec512 {
  using Int = __m512i;
  using Mask = __mmask16;
  static constexpr int kDeltaVectors = 2;
  static constexpr int kAttentionHeads = 6;
  static constexpr int kAttentionVectors = 4;

  __m512 v;

#define CAIRN_OP [[gnu::always_inline]] static inline
  CAIRN_OP Vec512 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  CAIRN_OP Mask first_n(int n) { return static_cast<Mask>((1U << n) - 1U); }
  CAIRN_OP Vec512 load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_n(n), p)}; }
  CAIRN_OP Vec512 load_low(const void* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
  }
  CAIRN_OP Vec512 load_high(const void* p) {
    return {
        _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(~0xffff)))};
  }
  CAIRN_OP Vec512 set1(float x) { return {_mm512_set1_ps(x)}; }
  CAIRN_OP Vec512 zero() { return {_mm512_setzero_ps()}; }
  [[gnu::always_inline]] inline void store(float* p) const { _mm512_storeu_ps(p, v); }
  [[gnu::always_inline]] inline void store_n(float* p, int n) const {
    _mm512_mask_storeu_ps(p, first_n(n), v);
  }
  [[gnu::always_inline]] inline float first() const { return _mm512_cvtss_f32(v); }

  CAIRN_OP Vec512 add(Vec512 a, Vec512 b) { return {_mm512_add_ps(a.v, b.v)}; }
  CAIRN_OP Vec512 sub(Vec512 a, Vec512 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  CAIRN_OP Vec512 mul(Vec512 a, Vec512 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  CAIRN_OP Vec512 div(Vec512 a, Vec512 b) { return {_mm512_div_ps(a.v, b.v)}; }
  CAIRN_OP Vec512 min(Vec512 a, Vec512 b) { return {_mm512_min_ps(a.v, b.v)}; }
  CAIRN_OP Vec512 max(Vec512 a, Vec512 b) { return {_mm512_max_ps(a.v, b.v)}; }
  CAIRN_OP Vec512 fma(Vec512 a, Vec512 b, Vec512 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  CAIRN_OP Vec512 sqrt(Vec512 a) { return {_mm512_sqrt_ps(a.v)}; }
  CAIRN_OP Vec512 negate(Vec512 a) {
    return {_mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(INT32_MIN)))};
  }
  CAIRN_OP Vec512 minus_abs(Vec512 a) {
    return {_mm512_castsi512_ps(
        _mm512_or_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(INT32_MIN)))};
  }
  /// x 2^n, rounded once; n is a whole number.
  CAIRN_OP Vec512 scale(Vec512 x, Vec512 n) { return {_mm512_scalef_ps(x.v, n.v)}; }

  CAIRN_OP Mask less(Vec512 a, Vec512 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  CAIRN_OP Mask equal(Vec512 a, Vec512 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
  CAIRN_OP int bits(Mask m) { return m; }
  CAIRN_OP Vec512 select(Mask m, Vec512 yes, Vec512 no) {
    return {_mm512_mask_blend_ps(m, no.v, yes.v)};
  }

  CAIRN_OP Int as_int(Vec512 a) { return _mm512_castps_si512(a.v); }
  CAIRN_OP Vec512 as_float(Int a) { return {_mm512_castsi512_ps(a)}; }
  CAIRN_OP Vec512 to_float_lanes(Int a) { return {_mm512_cvtepi32_ps(a)}; }
  CAIRN_OP Int iset1(std::int32_t x) { return _mm512_set1_epi32(x); }
  CAIRN_OP Int iadd(Int a, Int b) { return _mm512_add_epi32(a, b); }
  CAIRN_OP Int isub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  CAIRN_OP Int iand(Int a, Int b) { return _mm512_and_si512(a, b); }
  template <int kBits>
  CAIRN_OP Int shift_left(Int a) {
    return _mm512_slli_epi32(a, kBits);
  }
  template <int kBits>
  CAIRN_OP Int shift_right(Int a) {
    return _mm512_srai_epi32(a, kBits);
  }

  CAIRN_OP float reduce_add(Vec512 a) {
    const __m256 e = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 g = _mm_add_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps(g, g, 1)));
  }
  CAIRN_OP float reduce_max(Vec512 a) {
    const __m256 e = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 f = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 g = _mm_max_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_max_ss(g, _mm_shuffle_ps(g, g, 1)));
  }
#undef CAIRN_OP
};

}  // namespace
}  // namespace cairn::kernels

#if !defined(__clang__)
#pragma GCC pop_options
#endif
