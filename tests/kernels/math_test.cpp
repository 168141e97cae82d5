// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

/// Values across all magnitudes of both signs, plus the edges.
Floats all_magnitudes(float limit) {
  Floats v = {0.0F,
              -0.0F,
              kInfinity,
              -kInfinity,
              0x1p-149F,
              -0x1p-149F,
              0x1p-126F,
              1.0F,
              -1.0F,
              88.7F,
              88.8F,
              89.5F,
              -87.3F,
              -87.4F,
              -103.9F,
              -104.1F,
              1000.0F,
              -1000.0F,
              0x1.fffffep+127F,
              20.0F,
              20.00001F};
  for (std::uint32_t bits = 0; bits < 0x7f800000U; bits += 40009U) {
    const float x = bits_float(bits);
    if (x > limit) break;
    v.push_back(x);
    v.push_back(-x);
  }
  return v;
}

}  // namespace

TEST_CASE("exp is within 1 ulp everywhere, denormal results included") {
  const Floats x = all_magnitudes(200.0F);
  double worst = 0;
  for (const float v : x) {
    const double want = std::exp(static_cast<double>(v));
    const float got = exp_f32(v);
    if (want > static_cast<double>(std::numeric_limits<float>::max())) {
      REQUIRE((std::isinf(got) || ulps(got, std::numeric_limits<float>::max()) <= 1));
      continue;
    }
    worst = std::max(worst, ulps(got, want));
  }
  REQUIRE(worst < 1.0);
  REQUIRE(exp_f32(-kInfinity) == 0.0F);
  REQUIRE(exp_f32(-104.0F) == 0.0F);
  REQUIRE(exp_f32(kInfinity) == kInfinity);
  REQUIRE(exp_f32(0.0F) == 1.0F);
  REQUIRE(std::isnan(exp_f32(kNan)));
}

TEST_CASE("log is within 2 ulp everywhere") {
  double worst = 0;
  for (std::uint32_t bits = 1; bits < 0x7f800000U; bits += 10007U) {
    const float v = bits_float(bits);
    worst = std::max(worst, ulps(log_f32(v), std::log(static_cast<double>(v))));
  }
  for (int i = -3000; i <= 3000; ++i) {  // around 1, where the result vanishes
    const float v = 1.0F + static_cast<float>(i) * 0x1p-14F;
    worst = std::max(worst, ulps(log_f32(v), std::log(static_cast<double>(v))));
  }
  REQUIRE(worst < 2.0);
  REQUIRE(log_f32(1.0F) == 0.0F);
  REQUIRE(log_f32(0.0F) == -kInfinity);
  REQUIRE(log_f32(-0.0F) == -kInfinity);
  REQUIRE(log_f32(kInfinity) == kInfinity);
  REQUIRE(std::isnan(log_f32(-1.0F)));
  REQUIRE(std::isnan(log_f32(kNan)));
}

TEST_CASE("sigmoid is within 3 ulp, both tails included") {
  double worst = 0;
  for (const float v : all_magnitudes(100.0F)) {
    const double want = 1.0 / (1.0 + std::exp(-static_cast<double>(v)));
    worst = std::max(worst, ulps(sigmoid_f32(v), want));
  }
  REQUIRE(worst < 3.0);
  REQUIRE(sigmoid_f32(-kInfinity) == 0.0F);
  REQUIRE(sigmoid_f32(kInfinity) == 1.0F);
  REQUIRE(std::isnan(sigmoid_f32(kNan)));
}

TEST_CASE("sigmoid takes the bits of exp, down to denormals") {
  for (const float v : all_magnitudes(200.0F)) {
    INFO(v);
    const float e = exp_f32(-std::abs(v));
    REQUIRE(float_bits(sigmoid_f32(v)) == float_bits((v < 0 ? e : 1.0F) / (1.0F + e)));
  }
}

TEST_CASE("array exp, log and sigmoid have the scalar functions' bits at every level and length") {
  Floats x = all_magnitudes(200.0F);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Isa isa : supported_isas()) {
    const Ops& k = ops(isa);
    Floats e(x.size()), l(x.size()), s(x.size());
    k.exp(x.data(), n, e.data());
    k.log(x.data(), n, l.data());
    k.sigmoid(x.data(), n, s.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(to_string(isa) << " " << x[i]);
      REQUIRE(float_bits(e[i]) == float_bits(exp_f32(x[i])));
      if (x[i] >= 0) REQUIRE(float_bits(l[i]) == float_bits(log_f32(x[i])));
      REQUIRE(float_bits(s[i]) == float_bits(sigmoid_f32(x[i])));
    }
    for (std::int64_t length = 0; length < 40; ++length) {
      Floats y(48, 7.0F);
      k.exp(x.data(), length, y.data());
      REQUIRE(same_bits(y.data(), e.data(), length));
      for (std::size_t i = static_cast<std::size_t>(length); i < y.size(); ++i) {
        REQUIRE(y[i] == 7.0F);
      }
    }
  }
}

TEST_CASE("sum adds in sixteen lanes and folds them by halves") {
  Random random(3);
  for (const std::int64_t n : {0, 1, 2, 15, 16, 17, 31, 32, 33, 100, 1000, 4097}) {
    const Floats x = random.floats(n, -100.0F, 100.0F);
    float lane[16] = {};
    for (std::int64_t i = 0; i < n; ++i) lane[i % 16] += x[static_cast<std::size_t>(i)];
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    }
    REQUIRE(float_bits(sum_f32(x.data(), n)) == float_bits(lane[0]));
    for (const Isa isa : supported_isas()) {
      REQUIRE(float_bits(ops(isa).sum(x.data(), n)) == float_bits(lane[0]));
    }
  }
}

TEST_CASE("argmax takes the lowest index of the largest value and never a NaN") {
  Random random(4);
  for (const Isa isa : supported_isas()) {
    INFO(to_string(isa));
    const auto argmax = [&](const Floats& x) {
      const auto n = static_cast<std::int64_t>(x.size());
      const std::int64_t got = ops(isa).argmax(x.data(), n);
      REQUIRE(got == argmax_f32(x.data(), n));
      return got;
    };
    REQUIRE(argmax({}) == 0);
    REQUIRE(argmax({-kInfinity}) == 0);
    REQUIRE(argmax({kNan, kNan}) == 0);
    REQUIRE(argmax({kNan, -3.0F, -2.0F, -2.0F}) == 2);
    REQUIRE(argmax({-1.0F, -2.0F, -3.0F}) == 0);
    REQUIRE(argmax({0.0F, kInfinity, kInfinity}) == 1);
    Floats late(40, -5.0F);  // a NaN after the largest, in the largest's lane
    late[3] = 1.0F;
    late[19] = kNan;
    REQUIRE(argmax(late) == 3);
    for (int round = 0; round < 50; ++round) {
      Floats x = random.floats(1 + random.below(70), -9.0F, -1.0F);
      const std::int64_t a = random.below(static_cast<std::int64_t>(x.size()));
      const std::int64_t b = random.below(static_cast<std::int64_t>(x.size()));
      x[static_cast<std::size_t>(a)] = x[static_cast<std::size_t>(b)] = -0.5F;
      if (round % 2 == 0) x[0] = a == 0 || b == 0 ? x[0] : kNan;
      REQUIRE(argmax(x) == std::min(a, b));
    }
  }
}

TEST_CASE("sum_exp is the softmax denominator in the tree of sum") {
  Random random(5);
  for (const std::int64_t n : {0, 1, 15, 16, 17, 333}) {
    const Floats x = random.floats(n, -20.0F, 0.0F);
    Floats e(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) e[i] = exp_f32((x[i] - 0.25F) * 0.5F);
    for (const Isa isa : supported_isas()) {
      REQUIRE(float_bits(ops(isa).sum_exp(x.data(), n, 0.25F, 0.5F)) ==
              float_bits(sum_f32(e.data(), n)));
    }
  }
}

}  // namespace cairn::kernels::testing
