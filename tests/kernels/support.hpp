// SPDX-License-Identifier: Apache-2.0
// What the kernel tests share: random data, comparison of bits, and every instruction set of this
// machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/ops.hpp"
#include "tests/support/catch.hpp"

namespace cairn::kernels::testing {

using Floats = std::vector<float>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : generator_(seed) {}
  Floats floats(std::int64_t n, float low = -1.0F, float high = 1.0F) {
    std::uniform_real_distribution<float> uniform(low, high);
    Floats v(static_cast<std::size_t>(n));
    for (float& x : v) x = uniform(generator_);
    return v;
  }
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(generator_);
  }

 private:
  std::mt19937 generator_;
};

inline bool same_bits(const float* a, const float* b, std::int64_t n) {
  return n == 0 || std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(float)) == 0;
}
inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), static_cast<std::int64_t>(a.size()));
}

/// Largest |got - want| / (|want| + floor).
template <class Want>
double worst_error(const Floats& got, const std::vector<Want>& want, double floor) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double w = static_cast<double>(want[i]);
    const double e = std::abs(static_cast<double>(got[i]) - w) / (std::abs(w) + floor);
    worst = e > worst || std::isnan(e) ? e : worst;
    if (std::isnan(e)) return std::numeric_limits<double>::infinity();
  }
  return worst;
}

/// Distance of got from want in units in the last place of want's float neighbourhood.
inline double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  const float up = std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity());
  const double ulp = static_cast<double>(up) - static_cast<double>(std::abs(rounded));
  return std::abs(static_cast<double>(got) - want) / ulp;
}

inline const float kNan = std::numeric_limits<float>::quiet_NaN();
inline const float kInfinity = std::numeric_limits<float>::infinity();

/// Runs fn(ops) at every level and requires that all results have the bits of the first. fn returns
/// Floats.
template <class Fn>
Floats same_at_every_level(const Fn& fn) {
  Floats first;
  for (const Isa isa : supported_isas()) {
    INFO("level " << to_string(isa));
    Floats got = fn(ops(isa));
    if (isa == Isa::portable) {
      first = std::move(got);
    } else {
      REQUIRE(same_bits(got, first));
    }
  }
  return first;
}

/// A packed matrix of random bf16 weights and the same weights as fp32 [n, k].
struct RandomMatrix {
  RandomMatrix(Random& random, std::int64_t n, std::int64_t k) : packed(n, k) {
    Floats source = random.floats(n * k);
    std::vector<Bf16> rounded(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) rounded[i] = to_bf16(source[i]);
    packed.pack(0, n, rounded.data());
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = to_float(rounded[i]);
    plain = std::move(source);
  }
  PackedMatrix packed;
  Floats plain;
};

}  // namespace cairn::kernels::testing
