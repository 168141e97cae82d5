// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "base/check.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {

TEST_CASE("bf16 conversion rounds to nearest even at every bit pattern's neighbourhood") {
  for (std::uint32_t high = 0; high < 0x10000U; ++high) {
    const float exact = bits_float(high << 16);
    if (std::isnan(exact)) {
      REQUIRE(std::isnan(to_float(to_bf16(exact))));
      REQUIRE(std::isnan(to_float(to_bf16(bits_float((high << 16) | 1U)))));
      continue;
    }
    REQUIRE(to_bf16(exact).bits == high);
    if (std::isinf(exact)) continue;
    REQUIRE(to_bf16(bits_float((high << 16) | 0x7fffU)).bits == high);
    REQUIRE(to_bf16(bits_float((high << 16) | 0x8001U)).bits == high + 1);
    REQUIRE(to_bf16(bits_float((high << 16) | 0x8000U)).bits == high + (high & 1U));
  }
}

TEST_CASE("packing puts every weight where embed_packed finds it, whatever the split") {
  Random random(1);
  for (const std::int64_t n : {1, 16, 63, 64, 65, 130, 200}) {
    for (const std::int64_t k : {1, 3, 64, 65, 129}) {
      const RandomMatrix w(random, n, k);
      PackedMatrix pieces(n, k);  // fp32 source, three uneven calls
      const std::int64_t a = n / 3, b = n / 2;
      pieces.pack(0, a, w.plain.data());
      pieces.pack(b, n - b, w.plain.data() + b * k);
      pieces.pack(a, b - a, w.plain.data() + a * k);
      REQUIRE(pieces.bytes() == w.packed.bytes());
      REQUIRE(std::memcmp(pieces.panel(0), w.packed.panel(0), pieces.bytes()) == 0);
      for (std::int64_t r = 0; r < n; ++r) {
        Floats y(static_cast<std::size_t>(k));
        ops(Isa::portable).embed_packed(w.packed, r, y.data());
        REQUIRE(same_bits(y.data(), w.plain.data() + r * k, k));
      }
    }
  }
}

TEST_CASE("packing fp32 values that bf16 cannot hold is refused") {
  PackedMatrix w(1, 2);
  const float bad[] = {1.0F, 1.0F + 0x1p-20F};
  REQUIRE_THROWS_AS(w.pack(0, 1, bad), InvariantError);
  REQUIRE_THROWS_AS(w.pack(1, 1, bad), InvariantError);
}

TEST_CASE("panels are aligned and padded with zeros") {
  Random random(2);
  const RandomMatrix w(random, 70, 5);
  REQUIRE(reinterpret_cast<std::uintptr_t>(w.packed.panel(0)) % 64 == 0);
  REQUIRE(w.packed.panels() == 2);
  for (std::int64_t k = 0; k < 6; ++k) {
    for (std::int64_t c = k < 5 ? 6 : 0; c < 64; ++c) {  // 70 columns, 5 of k
      REQUIRE(w.packed.panel(1)[2 * (k / 2 * 64 + c) + k % 2].bits == 0);
    }
  }
  REQUIRE(w.packed.bytes() == 2 * 6 * 64 * sizeof(Bf16));
}

TEST_CASE("a table's row is widened exactly") {
  const Bf16 table[] = {{0x3f80}, {0xc000}, {0x0001}, {0x7f7f}};
  PackedMatrix packed(2, 2);
  packed.pack(0, 2, table);
  float y[2];
  ops(Isa::portable).embed_packed(packed, 1, y);
  REQUIRE(y[0] == to_float(table[2]));
  REQUIRE(y[1] == to_float(table[3]));
}

TEST_CASE("instruction sets are chosen by name, by environment, and refused when unknown") {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    REQUIRE(parse_isa(to_string(isa)).value() == isa);
  }
  REQUIRE(parse_isa("sse9").error().code == ErrorCode::bad_request);
  REQUIRE(supported_isas().front() == Isa::portable);
  REQUIRE(supported_isas().back() == detect_isa());
  REQUIRE(choose_isa("portable").value() == Isa::portable);

  setenv("CAIRN_ISA", "portable", 1);
  REQUIRE(choose_isa("").value() == Isa::portable);
  setenv("CAIRN_ISA", "nonsense", 1);
  REQUIRE_FALSE(choose_isa("").ok());
  unsetenv("CAIRN_ISA");
  REQUIRE(choose_isa("").value() == detect_isa());
  for (const Isa isa : supported_isas()) REQUIRE(ops(isa).isa == isa);
}

}  // namespace cairn::kernels::testing
