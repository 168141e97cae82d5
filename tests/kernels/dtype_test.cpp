// SPDX-License-Identifier: Apache-2.0
#include "kernels/dtype.hpp"

#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

/// The value of 16 bits by the definition of a format with `mantissa` bits and that exponent bias.
double value64(std::uint32_t bits, int mantissa, int bias) {
  const std::uint32_t fraction = bits & ((1U << mantissa) - 1);
  const int exponent = static_cast<int>((bits & 0x7fffU) >> mantissa);
  const double unit = exponent == 0 ? fraction : fraction + std::ldexp(1.0, mantissa);
  const double magnitude = std::ldexp(unit, std::max(exponent, 1) - bias - mantissa);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

/// Checks every pair of neighbours: halves go to the even one, everything beside to the nearer.
template <class Round>
void check_rounding(std::uint32_t infinity, int mantissa, int bias, const Round& round) {
  for (std::uint32_t low = 0; low + 1 < infinity; ++low) {
    const auto a = static_cast<float>(value64(low, mantissa, bias));
    const auto b = static_cast<float>(value64(low + 1, mantissa, bias));
    const auto middle =
        static_cast<float>((value64(low, mantissa, bias) + value64(low + 1, mantissa, bias)) / 2);
    const std::uint32_t even = low % 2 == 0 ? low : low + 1;
    const bool held = round(a) == low && round(b) == low + 1 && round(middle) == even &&
                      round(std::nextafter(middle, 0.0F)) == low &&
                      round(std::nextafter(middle, kInfinity)) == low + 1 &&
                      round(-middle) == (even | 0x8000U);
    if (!held) FAIL("between " << low << " and " << low + 1);
  }
}

}  // namespace

TEST_CASE("every fp16 value is widened exactly and rounded back to itself") {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const float wide = to_float(F16{static_cast<std::uint16_t>(bits)});
    if ((bits & 0x7fffU) > 0x7c00U) {
      REQUIRE(std::isnan(wide));
      REQUIRE(to_f16(wide).bits == (bits | 0x200U));
      continue;
    }
    if ((bits & 0x7fffU) == 0x7c00U) {
      REQUIRE(std::isinf(wide));
    } else if (static_cast<double>(wide) != value64(bits, 10, 15)) {
      FAIL("widening " << bits);
    }
    REQUIRE(std::signbit(wide) == ((bits & 0x8000U) != 0));
    REQUIRE(to_f16(wide).bits == bits);
  }
}

TEST_CASE("16-bit formats round to nearest, ties to even") {
  check_rounding(0x7c00U, 10, 15, [](float x) -> std::uint32_t { return to_f16(x).bits; });
  // Below 2^-126 bf16's halfway points are fp32 subnormals, all held exactly too.
  check_rounding(0x7f80U, 7, 127, [](float x) -> std::uint32_t { return to_bf16(x).bits; });
}

TEST_CASE("16-bit formats overflow to infinity from half a unit above their largest value") {
  REQUIRE(to_f16(65519.996F).bits == 0x7bffU);
  REQUIRE(to_f16(65520.0F).bits == 0x7c00U);
  REQUIRE(to_f16(-kInfinity).bits == 0xfc00U);
  REQUIRE(to_bf16(0x1.fefffep+127F).bits == 0x7f7fU);
  REQUIRE(to_bf16(0x1.ffp+127F).bits == 0x7f80U);
  REQUIRE(std::isnan(to_float(to_bf16(kNan))));
  REQUIRE(std::isnan(to_float(to_f16(bits_float(0xff800001U)))));
}

}  // namespace cairn::kernels::testing
