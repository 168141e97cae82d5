// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

using Doubles = std::vector<double>;

double sigmoid64(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double inverse_rms64(const float* x, std::int64_t n, double eps) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return 1.0 / std::sqrt(sum / static_cast<double>(n) + eps);
}

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::int64_t kLengths[] = {1, 15, 16, 17, 48, 100, 256};

}  // namespace

TEST_CASE("rms_norm multiplies by one plus the weight") {
  Random random(20);
  for (const std::int64_t n : kLengths) {
    constexpr std::int64_t rows = 3;
    const std::int64_t ld = n + 2;
    const Floats x = random.floats(rows * ld, -3.0F, 3.0F);
    const Floats w = random.floats(n, -0.01F, 0.01F);
    const Floats y = same_at_every_level([&](const Ops& k) {
      Floats out(at(rows * ld), 7.0F);
      k.rms_norm(x.data(), ld, rows, n, w.data(), 1e-6F, out.data(), ld);
      Floats in_place = x;
      k.rms_norm(in_place.data(), ld, rows, n, w.data(), 1e-6F, in_place.data(), ld);
      for (std::int64_t r = 0; r < rows; ++r) {
        REQUIRE(same_bits(out.data() + r * ld, in_place.data() + r * ld, n));
        REQUIRE(out[at(r * ld + n)] == 7.0F);
      }
      return out;
    });
    Floats got;
    Doubles want;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double scale = inverse_rms64(x.data() + r * ld, n, 1e-6);
      for (std::int64_t i = 0; i < n; ++i) {
        got.push_back(y[at(r * ld + i)]);
        want.push_back(static_cast<double>(x[at(r * ld + i)]) * scale *
                       (1.0 + static_cast<double>(w[at(i)])));
      }
    }
    REQUIRE(worst_error(got, want, 1e-3) < 1e-6);
  }
}

TEST_CASE("gated_norm norms with a plain weight, then gates with silu") {
  Random random(21);
  for (const std::int32_t dv : {1, 16, 24, 128}) {
    constexpr std::int64_t tokens = 2, heads = 3;
    const std::int64_t ld = heads * dv + 1;
    const Floats o = random.floats(tokens * ld), z = random.floats(tokens * ld, -9.0F, 9.0F);
    const Floats w = random.floats(dv);
    const Floats y = same_at_every_level([&](const Ops& k) {
      Floats out(at(tokens * ld));
      k.gated_norm(o.data(), ld, z.data(), ld, tokens, heads, dv, w.data(), 1e-6F, out.data(), ld);
      Floats in_place = o;
      k.gated_norm(in_place.data(), ld, z.data(), ld, tokens, heads, dv, w.data(), 1e-6F,
                   in_place.data(), ld);
      for (std::int64_t t = 0; t < tokens; ++t) {
        REQUIRE(same_bits(out.data() + t * ld, in_place.data() + t * ld, heads * dv));
      }
      return out;
    });
    Floats got;
    Doubles want;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t base = t * ld + h * dv;
        const double scale = inverse_rms64(o.data() + base, dv, 1e-6);
        for (std::int64_t i = 0; i < dv; ++i) {
          const double gate = static_cast<double>(z[at(base + i)]);
          got.push_back(y[at(base + i)]);
          want.push_back(static_cast<double>(o[at(base + i)]) * scale *
                         static_cast<double>(w[at(i)]) * gate * sigmoid64(gate));
        }
      }
    }
    REQUIRE(worst_error(got, want, 1e-4) < 2e-6);
  }
}

TEST_CASE("l2_norm_qk makes unit vectors and scales q by dk^-0.5") {
  Random random(22);
  for (const std::int32_t dk : {1, 16, 20, 128}) {
    constexpr std::int64_t tokens = 3, heads = 2;
    const std::int64_t ld = heads * dk + 4;
    const Floats q = random.floats(tokens * ld), k = random.floats(tokens * ld);
    const Floats got = same_at_every_level([&](const Ops& o) {
      Floats a = q, b = k;
      o.l2_norm_qk(a.data(), b.data(), ld, tokens, heads, dk);
      a.insert(a.end(), b.begin(), b.end());
      return a;
    });
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        double sum_q = 0, sum_k = 0;
        for (std::int64_t i = 0; i < dk; ++i) {
          const std::int64_t j = t * ld + h * dk + i;
          sum_q += std::pow(static_cast<double>(q[at(j)]), 2);
          sum_k += std::pow(static_cast<double>(k[at(j)]), 2);
        }
        for (std::int64_t i = 0; i < dk; ++i) {
          const std::int64_t j = t * ld + h * dk + i;
          const double want_q =
              static_cast<double>(q[at(j)]) / std::sqrt(sum_q + 1e-6) / std::sqrt(double(dk));
          const double want_k = static_cast<double>(k[at(j)]) / std::sqrt(sum_k + 1e-6);
          REQUIRE(std::abs(static_cast<double>(got[at(j)]) - want_q) < 5e-7);
          REQUIRE(std::abs(static_cast<double>(got[at(tokens * ld + j)]) - want_k) < 5e-7);
        }
      }
      REQUIRE(got[at(t * ld + heads * dk)] == q[at(t * ld + heads * dk)]);  // padding untouched
    }
  }
}

TEST_CASE("gates follow the formula from tiny to saturated inputs") {
  Random random(23);
  for (const std::int32_t heads : {1, 16, 17, 48}) {
    constexpr std::int64_t tokens = 5;
    const std::int64_t ld = 2 * heads + 1;
    const Floats x = random.floats(tokens * ld, -40.0F, 40.0F);
    const Floats a_log = random.floats(heads, -3.0F, 3.0F);
    const Floats bias = random.floats(heads, -8.0F, 2.0F);
    const Floats got = same_at_every_level([&](const Ops& o) {
      Floats out(at(2 * tokens * heads));
      o.gates(x.data(), x.data() + heads, ld, tokens, heads, a_log.data(), bias.data(), out.data(),
              out.data() + tokens * heads);
      return out;
    });
    Doubles want(got.size());
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const double step =
            static_cast<double>(x[at(t * ld + h)]) + static_cast<double>(bias[at(h)]);
        const double softplus = step > 20 ? step : std::log1p(std::exp(step));
        want[at(t * heads + h)] = std::exp(-std::exp(static_cast<double>(a_log[at(h)])) * softplus);
        want[at((tokens + t) * heads + h)] =
            sigmoid64(static_cast<double>(x[at(t * ld + heads + h)]));
      }
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      // The exponent's own rounding (up to 80 ulp of a number near 80) shows in a small decay.
      REQUIRE(std::abs(static_cast<double>(got[i]) - want[i]) < 1e-6 * want[i] + 1e-7);
    }
  }
}

TEST_CASE("swiglu, residual_add and sigmoid_gate follow their formulas, in place too") {
  Random random(24);
  for (const std::int64_t n : kLengths) {
    const Floats a = random.floats(2 * n, -12.0F, 12.0F), b = random.floats(2 * n);
    const Floats y = same_at_every_level([&](const Ops& k) {
      Floats out(at(2 * n));
      k.swiglu(a.data(), n, b.data(), n, 2, n, out.data(), n);
      Floats in_place = a;
      k.swiglu(in_place.data(), n, b.data(), n, 2, n, in_place.data(), n);
      REQUIRE(same_bits(out, in_place));
      Floats sum = a;
      k.residual_add(sum.data(), b.data(), 2 * n);
      for (std::size_t i = 0; i < sum.size(); ++i) REQUIRE(sum[i] == a[i] + b[i]);
      Floats gated = b;  // two heads of n
      k.sigmoid_gate(gated.data(), a.data(), n, 2, static_cast<std::int32_t>(n));
      out.insert(out.end(), gated.begin(), gated.end());
      return out;
    });
    Doubles want;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double g = static_cast<double>(a[i]);
      want.push_back(g * sigmoid64(g) * static_cast<double>(b[i]));
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      want.push_back(static_cast<double>(b[i]) * sigmoid64(static_cast<double>(a[i])));
    }
    REQUIRE(worst_error(y, want, 1e-6) < 1e-6);
  }
}

TEST_CASE("norm_rope norms each head, turns the leading dims and passes the others") {
  Random random(25);
  struct Shape {
    std::int32_t head_dim, rotary;
  };
  for (const Shape s : {Shape{256, 64}, Shape{16, 4}, Shape{32, 8}, Shape{20, 20}, Shape{8, 0}}) {
    constexpr std::int32_t heads = 3;
    const std::int64_t in_stride = 2 * s.head_dim;
    const std::int64_t half = s.rotary / 2;
    const Floats x = random.floats(heads * in_stride), w = random.floats(s.head_dim);
    Floats cos(at(half)), sin(at(half));
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = 12345.0 * std::pow(1e7, -2.0 * static_cast<double>(i) / s.rotary);
      cos[at(i)] = static_cast<float>(std::cos(angle));
      sin[at(i)] = static_cast<float>(std::sin(angle));
    }
    const Floats y = same_at_every_level([&](const Ops& k) {
      Floats out(at(heads * s.head_dim));
      k.norm_rope(x.data(), in_stride, heads, s.head_dim, w.data(), 1e-6F, cos.data(), sin.data(),
                  s.rotary, out.data(), s.head_dim);
      Floats in_place = x;
      k.norm_rope(in_place.data(), in_stride, heads, s.head_dim, w.data(), 1e-6F, cos.data(),
                  sin.data(), s.rotary, in_place.data(), in_stride);
      for (std::int32_t h = 0; h < heads; ++h) {
        REQUIRE(
            same_bits(out.data() + h * s.head_dim, in_place.data() + h * in_stride, s.head_dim));
      }
      return out;
    });
    Doubles want;
    for (std::int32_t h = 0; h < heads; ++h) {
      const float* head = x.data() + h * in_stride;
      const double scale = inverse_rms64(head, s.head_dim, 1e-6);
      Doubles n;
      for (std::int64_t i = 0; i < s.head_dim; ++i) {
        n.push_back(static_cast<double>(head[i]) * scale * (1.0 + static_cast<double>(w[at(i)])));
      }
      for (std::int64_t i = 0; i < s.head_dim; ++i) {
        const double c = i < 2 * half ? static_cast<double>(cos[at(i % half)]) : 1.0;
        const double d = i < 2 * half ? static_cast<double>(sin[at(i % half)]) : 0.0;
        if (i < half) {
          want.push_back(n[at(i)] * c - n[at(i + half)] * d);
        } else if (i < 2 * half) {
          want.push_back(n[at(i)] * c + n[at(i - half)] * d);
        } else {
          want.push_back(n[at(i)]);
        }
      }
    }
    REQUIRE(worst_error(y, want, 0.1) < 3e-6);
  }
}

TEST_CASE("conv_silu is a causal convolution, whatever the split over tokens and channels") {
  Random random(26);
  for (const std::int32_t taps : {1, 2, 4, 5, 8}) {
    for (const std::int64_t channels : {1, 16, 37, 64}) {
      constexpr std::int64_t tokens = 11;
      const std::int64_t ld = channels + 3;
      const Floats x = random.floats(tokens * ld, -2.0F, 2.0F);
      const Floats weight = random.floats(taps * channels);
      const Floats window = random.floats((taps - 1) * channels);
      const auto convolve = [&](const Ops& k, const std::vector<std::int64_t>& cuts,
                                std::int64_t channel_step, bool in_place) {
        Floats y(at(tokens * ld), 7.0F), state = window;
        if (in_place) y = x;
        std::int64_t begin = 0;
        for (const std::int64_t end : cuts) {
          for (std::int64_t c = 0; c < channels; c += channel_step) {
            ConvArgs a;
            a.channels = channels;
            a.channel_begin = c;
            a.channel_end = std::min(channels, c + channel_step);
            a.taps = taps;
            a.tokens = end - begin;
            a.weight = weight.data();
            a.window = state.data();
            a.x = (in_place ? y.data() : x.data()) + begin * ld;
            a.ldx = a.ldy = ld;
            a.y = y.data() + begin * ld;
            k.conv_silu(a);
          }
          begin = end;
        }
        if (in_place) {
          for (std::int64_t t = 0; t < tokens; ++t) {
            for (std::int64_t c = channels; c < ld; ++c) y[at(t * ld + c)] = 7.0F;
          }
        }
        y.insert(y.end(), state.begin(), state.end());
        return y;
      };
      const Floats whole = same_at_every_level([&](const Ops& k) {
        Floats y = convolve(k, {tokens}, channels, false);
        REQUIRE(same_bits(y, convolve(k, {1, 1, 4, 6, tokens}, channels, false)));
        REQUIRE(same_bits(y, convolve(k, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 16, false)));
        REQUIRE(same_bits(y, convolve(k, {5, tokens}, 7, true)));
        return y;
      });
      for (std::int64_t t = 0; t < tokens; ++t) {
        REQUIRE(whole[at(t * ld + channels)] == 7.0F);
        for (std::int64_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (std::int32_t j = 0; j < taps; ++j) {
            const std::int64_t from = t - (taps - 1) + j;
            const float m =
                from >= 0 ? x[at(from * ld + c)] : window[at((from + taps - 1) * channels + c)];
            sum += static_cast<double>(weight[at(j * channels + c)]) * static_cast<double>(m);
          }
          REQUIRE(std::abs(static_cast<double>(whole[at(t * ld + c)]) - sum * sigmoid64(sum)) <
                  3e-6);
        }
      }
      for (std::int32_t j = 0; j + 1 < taps; ++j) {  // the window ends as the last inputs
        for (std::int64_t c = 0; c < channels; ++c) {
          REQUIRE(whole[at(tokens * ld + j * channels + c)] ==
                  x[at((tokens - (taps - 1) + j) * ld + c)]);
        }
      }
    }
  }
}

}  // namespace cairn::kernels::testing
