// SPDX-License-Identifier: Apache-2.0
// Norms, gates, convolution, RoPE and plain array kernels, once for every instruction set. Rows of
// up to 15 elements past a multiple of 16 go through the same lanes, filled with zeros.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/math_body.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/vec_pair.hpp"

namespace cairn::kernels {

template <class V>
struct Elementwise {
  /// Lanes for elements i.. of n.
  CAIRN_INLINE static V get(const float* p, std::int64_t i, std::int64_t n) {
    return n - i >= 16 ? V::load(p + i) : V::load_n(p + i, static_cast<int>(n - i));
  }
  CAIRN_INLINE static void put(V x, float* p, std::int64_t i, std::int64_t n) {
    if (n - i >= 16) {
      x.store(p + i);
    } else {
      x.store_n(p + i, static_cast<int>(n - i));
    }
  }

  /// Vectors or pairs of them; those of pairs are all live.
  template <class W>
  CAIRN_INLINE static W take(const float* p, std::int64_t i, std::int64_t n) {
    if constexpr (std::is_same_v<W, V>) {
      return get(p, i, n);
    } else {
      return W::load(p + i);
    }
  }
  template <class W>
  CAIRN_INLINE static void leave(W x, float* p, std::int64_t i, std::int64_t n) {
    if constexpr (std::is_same_v<W, V>) {
      put(x, p, i, n);
    } else {
      x.store(p + i);
    }
  }
  /// Calls fn(i, lanes) for elements i.. of n, in pairs while there are enough.
  template <class F>
  CAIRN_INLINE static void for_lanes(std::int64_t n, F&& fn) {
    std::int64_t i = 0;
    for (; i + 32 <= n; i += 32) fn.template operator()<Pair<V>>(i);
    for (; i < n; i += 16) fn.template operator()<V>(i);
  }

  static float sum_squares(const float* x, std::int64_t n) {
    V acc = V::zero();
    for (std::int64_t i = 0; i < n; i += 16) {
      const V v = get(x, i, n);
      acc = V::fma(v, v, acc);
    }
    return V::reduce_add(acc);
  }
  CAIRN_INLINE static float inverse_root(float x) { return 1.0F / __builtin_sqrtf(x); }

  static void norm_row(const float* x, std::int64_t n, const float* w, float eps, float* y) {
    const V scale = V::set1(inverse_root(sum_squares(x, n) / static_cast<float>(n) + eps));
    const V one = V::set1(1.0F);
    for (std::int64_t i = 0; i < n; i += 16) {
      put(V::mul(V::mul(get(x, i, n), scale), V::add(one, get(w, i, n))), y, i, n);
    }
  }

  static void rms_norm(const float* x, std::int64_t ldx, std::int64_t rows, std::int64_t n,
                       const float* w, float eps, float* y, std::int64_t ldy) {
    for (std::int64_t r = 0; r < rows; ++r) norm_row(x + r * ldx, n, w, eps, y + r * ldy);
  }

  static void residual_add(float* x, const float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += 16) {
      put(V::add(get(x, i, n), get(y, i, n)), x, i, n);
    }
  }

  static void swiglu(const float* gate, std::int64_t ld_gate, const float* up, std::int64_t ld_up,
                     std::int64_t rows, std::int64_t n, float* y, std::int64_t ldy) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* g = gate + r * ld_gate;
      const float* u = up + r * ld_up;
      for_lanes(n, [&]<class W>(std::int64_t i) {
        leave(W::mul(silu_lanes(take<W>(g, i, n)), take<W>(u, i, n)), y + r * ldy, i, n);
      });
    }
  }

  /// Rows of one head lie too far apart for the processor to guess the next one: how many ahead
  /// they are fetched.
  static constexpr std::int64_t kRowsAhead = 8;
  /// The window and the taps of one W's channels stay in registers over all tokens; x is read
  /// before y is written.
  template <int kTaps, class W>
  static void conv_channels(const ConvArgs& a, std::int64_t c) {
    W weight[kTaps];
    W past[kTaps];  // past[kTaps - 1] is the newest
    CAIRN_UNROLL
    for (int j = 0; j < kTaps; ++j) {
      weight[j] = take<W>(a.weight + j * a.channels, c, a.channel_end);
    }
    CAIRN_UNROLL
    for (int j = 0; j + 1 < kTaps; ++j) {
      past[j + 1] = take<W>(a.window + j * a.channels, c, a.channel_end);
    }
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      const float* const later = a.x + (t + kRowsAhead) * a.ldx + c;
      __builtin_prefetch(later, 1);
      if constexpr (!std::is_same_v<W, V>) __builtin_prefetch(later + 16, 1);
      CAIRN_UNROLL
      for (int j = 0; j + 1 < kTaps; ++j) past[j] = past[j + 1];
      past[kTaps - 1] = take<W>(a.x + t * a.ldx, c, a.channel_end);
      W acc = W::mul(weight[0], past[0]);
      CAIRN_UNROLL
      for (int j = 1; j < kTaps; ++j) acc = W::fma(weight[j], past[j], acc);
      leave(silu_lanes(acc), a.y + t * a.ldy, c, a.channel_end);
    }
    CAIRN_UNROLL
    for (int j = 0; j + 1 < kTaps; ++j) {
      leave(past[j + 1], a.window + j * a.channels, c, a.channel_end);
    }
  }
  template <int kTaps>
  static void conv_all(const ConvArgs& a) {
    std::int64_t c = a.channel_begin;
    for (; c + 32 <= a.channel_end; c += 32) conv_channels<kTaps, Pair<V>>(a, c);
    for (; c < a.channel_end; c += 16) conv_channels<kTaps, V>(a, c);
  }

  static void conv_silu(const ConvArgs& a) {
    switch (a.taps) {
      case 1:
        return conv_all<1>(a);
      case 2:
        return conv_all<2>(a);
      case 3:
        return conv_all<3>(a);
      case 4:
        return conv_all<4>(a);
      case 5:
        return conv_all<5>(a);
      case 6:
        return conv_all<6>(a);
      case 7:
        return conv_all<7>(a);
      default:
        return conv_all<8>(a);
    }
  }

  static void gates(const float* a, const float* b, std::int64_t ld, std::int64_t tokens,
                    std::int32_t heads, const float* a_log, const float* dt_bias, float* decay,
                    float* beta) {
    for (std::int64_t i = 0; i < heads; i += 16) {
      const V rate = V::negate(exp_lanes(get(a_log, i, heads)));
      const V bias = get(dt_bias, i, heads);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const V step = softplus_lanes(V::add(get(a + t * ld, i, heads), bias));
        put(exp_lanes(V::mul(rate, step)), decay + t * heads, i, heads);
        put(sigmoid_lanes(get(b + t * ld, i, heads)), beta + t * heads, i, heads);
      }
    }
  }

  static void l2_norm_qk(float* q, float* k, std::int64_t ld, std::int64_t tokens,
                         std::int32_t heads, std::int32_t dk) {
    const V q_scale = V::set1(inverse_root(static_cast<float>(dk)));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int32_t h = 0; h < heads; ++h) {
        float* qh = q + t * ld + static_cast<std::int64_t>(h) * dk;
        float* kh = k + t * ld + static_cast<std::int64_t>(h) * dk;
        const V q_norm = V::set1(inverse_root(sum_squares(qh, dk) + 1e-6F));
        const V k_norm = V::set1(inverse_root(sum_squares(kh, dk) + 1e-6F));
        for (std::int64_t i = 0; i < dk; i += 16) {
          put(V::mul(V::mul(get(qh, i, dk), q_norm), q_scale), qh, i, dk);
          put(V::mul(get(kh, i, dk), k_norm), kh, i, dk);
        }
      }
    }
  }

  static void gated_norm(const float* o, std::int64_t ldo, const float* z, std::int64_t ldz,
                         std::int64_t tokens, std::int32_t heads, std::int32_t dv, const float* w,
                         float eps, float* y, std::int64_t ldy) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int32_t h = 0; h < heads; ++h) {
        const std::int64_t at = static_cast<std::int64_t>(h) * dv;
        const float* oh = o + t * ldo + at;
        const float* zh = z + t * ldz + at;
        const float scale = inverse_root(sum_squares(oh, dv) / static_cast<float>(dv) + eps);
        for (std::int64_t i = 0; heads == 1 && i < dv; i += 16) {
          __builtin_prefetch(zh + kRowsAhead * ldz + i);
          __builtin_prefetch(oh + kRowsAhead * ldo + i, 1);
        }
        for_lanes(dv, [&]<class W>(std::int64_t i) {
          const W normed = W::mul(W::mul(take<W>(oh, i, dv), W::set1(scale)), take<W>(w, i, dv));
          leave(W::mul(normed, silu_lanes(take<W>(zh, i, dv))), y + t * ldy + at, i, dv);
        });
      }
    }
  }

  static void norm_rope(const float* x, std::int64_t x_head_stride, std::int32_t heads,
                        std::int32_t head_dim, const float* w, float eps, const float* cos,
                        const float* sin, std::int32_t rotary_dim, float* y,
                        std::int64_t y_head_stride) {
    const std::int64_t half = rotary_dim / 2;
    for (std::int32_t h = 0; h < heads; ++h) {
      float* out = y + h * y_head_stride;
      norm_row(x + h * x_head_stride, head_dim, w, eps, out);
      for (std::int64_t i = 0; i < half; i += 16) {
        const V a = get(out, i, half);
        const V b = get(out + half, i, half);
        const V c = get(cos, i, half);
        const V s = get(sin, i, half);
        put(V::fma(a, c, V::negate(V::mul(b, s))), out, i, half);
        put(V::fma(b, c, V::mul(a, s)), out + half, i, half);
      }
    }
  }

  static void sigmoid_gate(float* x, const float* gate, std::int64_t gate_head_stride,
                           std::int32_t heads, std::int32_t head_dim) {
    for (std::int32_t h = 0; h < heads; ++h) {
      float* xh = x + static_cast<std::int64_t>(h) * head_dim;
      const float* gh = gate + h * gate_head_stride;
      for_lanes(head_dim, [&]<class W>(std::int64_t i) {
        leave(W::mul(take<W>(xh, i, head_dim), sigmoid_lanes(take<W>(gh, i, head_dim))), xh, i,
              head_dim);
      });
    }
  }

  static void exp(const float* x, std::int64_t n, float* y) {
    for (std::int64_t i = 0; i < n; i += 16) put(exp_lanes(get(x, i, n)), y, i, n);
  }
  static void log(const float* x, std::int64_t n, float* y) {
    for (std::int64_t i = 0; i < n; i += 16) put(log_lanes(get(x, i, n)), y, i, n);
  }
  static void sigmoid(const float* x, std::int64_t n, float* y) {
    for (std::int64_t i = 0; i < n; i += 16) put(sigmoid_lanes(get(x, i, n)), y, i, n);
  }

  static float sum(const float* x, std::int64_t n) {
    V acc = V::zero();
    for (std::int64_t i = 0; i < n; i += 16) acc = V::add(acc, get(x, i, n));
    return V::reduce_add(acc);
  }

  static std::int64_t argmax(const float* x, std::int64_t n) {
    V best = V::set1(-__builtin_inff());
    for (std::int64_t i = 0; i < n; i += 16) {
      V v = get(x, i, n);
      if (n - i < 16) v = V::select(V::first_n(static_cast<int>(n - i)), v, best);
      best = V::max(v, best);  // a NaN in v leaves best
    }
    const V top = V::set1(V::reduce_max(best));
    for (std::int64_t i = 0; i < n; i += 16) {
      const int live = n - i >= 16 ? 0xffff : (1 << (n - i)) - 1;
      const int hits = V::bits(V::equal(get(x, i, n), top)) & live;
      if (hits != 0) return i + __builtin_ctz(static_cast<unsigned>(hits));
    }
    return 0;
  }

  static float sum_exp(const float* x, std::int64_t n, float shift, float scale) {
    const V s = V::set1(shift);
    const V f = V::set1(scale);
    V acc = V::zero();
    for (std::int64_t i = 0; i < n; i += 16) {
      V e = exp_lanes(V::mul(V::sub(get(x, i, n), s), f));
      if (n - i < 16) e = V::select(V::first_n(static_cast<int>(n - i)), e, V::zero());
      acc = V::add(acc, e);
    }
    return V::reduce_add(acc);
  }
};

}  // namespace cairn::kernels
