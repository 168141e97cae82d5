// SPDX-License-Identifier: Apache-2.0
// Sixteen fp32 lanes in two AVX registers. The including file enables the instruction set.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/dtype.hpp"

#if !defined(__clang__)  // g++ wants it here as well, or passing registers would be another ABI
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace cairn::kernels {
namespace {

/// VecPortable's interface; lane for lane the same bits. Lanes 0..7 in a, 8..15 in b.
struct Vec256 {
  struct Int {
    __m256i a, b;
  };
  struct Mask {
    __m256 a, b;
  };
  static constexpr int kDeltaVectors = 1;
  static constexpr int kAttentionHeads = 6;
  static constexpr int kAttentionVectors = 1;

  __m256 a, b;

#define CAIRN_OP [[gnu::always_inline]] static inline
  CAIRN_OP Vec256 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  CAIRN_OP Mask first_n(int n) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), index)),
            _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), index))};
  }
  CAIRN_OP Vec256 load_n(const float* p, int n) {
    const Mask m = first_n(n);
    return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
            _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
  }
  CAIRN_OP Vec256 load_low(const void* p) {
    const auto* words = static_cast<const __m256i*>(p);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(words), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(words + 1), 16))};
  }
  CAIRN_OP Vec256 load_high(const void* p) {
    const auto* words = static_cast<const __m256i*>(p);
    const __m256i mask = _mm256_set1_epi32(~0xffff);
    return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(words), mask)),
            _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(words + 1), mask))};
  }
  CAIRN_OP Vec256 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  CAIRN_OP Vec256 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  [[gnu::always_inline]] inline void store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  [[gnu::always_inline]] inline void store_n(float* p, int n) const {
    const Mask m = first_n(n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), a);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), b);
  }
  [[gnu::always_inline]] inline float first() const { return _mm256_cvtss_f32(a); }

  CAIRN_OP Vec256 add(Vec256 x, Vec256 y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  CAIRN_OP Vec256 sub(Vec256 x, Vec256 y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
  }
  CAIRN_OP Vec256 mul(Vec256 x, Vec256 y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  CAIRN_OP Vec256 div(Vec256 x, Vec256 y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
  }
  CAIRN_OP Vec256 min(Vec256 x, Vec256 y) {
    return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
  }
  CAIRN_OP Vec256 max(Vec256 x, Vec256 y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
  }
  CAIRN_OP Vec256 fma(Vec256 x, Vec256 y, Vec256 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  CAIRN_OP Vec256 sqrt(Vec256 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
  CAIRN_OP Vec256 negate(Vec256 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(sign, x.a), _mm256_xor_ps(sign, x.b)};
  }
  CAIRN_OP Vec256 minus_abs(Vec256 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(sign, x.a), _mm256_or_ps(sign, x.b)};
  }

  CAIRN_OP Mask less(Vec256 x, Vec256 y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
  }
  CAIRN_OP Mask equal(Vec256 x, Vec256 y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
  }
  CAIRN_OP int bits(Mask m) { return _mm256_movemask_ps(m.a) | (_mm256_movemask_ps(m.b) << 8); }
  CAIRN_OP Vec256 select(Mask m, Vec256 yes, Vec256 no) {
    return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
  }

  CAIRN_OP Int as_int(Vec256 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
  CAIRN_OP Vec256 as_float(Int x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
  CAIRN_OP Vec256 to_float_lanes(Int x) {
    return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
  }
  CAIRN_OP Int iset1(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  CAIRN_OP Int iadd(Int x, Int y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  CAIRN_OP Int isub(Int x, Int y) {
    return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
  }
  CAIRN_OP Int iand(Int x, Int y) {
    return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
  }
  template <int kBits>
  CAIRN_OP Int shift_left(Int x) {
    return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
  }
  template <int kBits>
  CAIRN_OP Int shift_right(Int x) {
    return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
  }

  CAIRN_OP float reduce_add(Vec256 x) {
    const __m256 e = _mm256_add_ps(x.a, x.b);
    const __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 g = _mm_add_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps(g, g, 1)));
  }
  CAIRN_OP float reduce_max(Vec256 x) {
    const __m256 e = _mm256_max_ps(x.a, x.b);
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
