// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/flush_denormals.hpp"
#include "kernels/cpu/shared.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "tests/kernels/support.hpp"
#include "tests/support/sanitized.hpp"

namespace cairn::kernels::testing {
namespace {

/// The order that docs/order.md promises, one output at a time.
float one_output(const float* x, const float* w, std::int64_t k) {
  float acc = 0.0F;
  for (std::int64_t i = 0; i + 1 < k; i += 2) {
    acc = std::fma(x[i + 1], w[i + 1], acc);
    acc = std::fma(x[i], w[i], acc);
  }
  return k % 2 == 0 ? acc : std::fma(x[k - 1], w[k - 1], acc);
}

Floats rounded(Floats x) {
  for (float& v : x) v = to_float(to_bf16(v));
  return x;
}

/// Every way in which this machine can multiply rounded rows.
struct Level {
  std::string name;
  Ops ops;
};
std::vector<Level> rounding_levels() {
  std::vector<Level> levels;
  for (const Isa isa : supported_isas()) levels.push_back({to_string(isa), ops(isa)});
  if (isa_supported(Isa::avx512)) levels.push_back({"avx512, fma", shared::kAvx512});
  if (bf16_dot_supported()) {
    Ops dots = shared::kAvx512;
    dots.round_rows = shared::round_rows_bf16;
    dots.gemm_rounded = shared::gemm_rounded_bf16;
    levels.push_back({"avx512, VDPBF16PS", dots});
  }
  return levels;
}

/// round_rows and gemm_rounded, [rows, n].
Floats multiply_rounded(const Ops& o, const PackedMatrix& w, const Floats& x, std::int64_t rows) {
  HugeBuffer memory(RoundedRows::bytes(rows, w.k()));
  std::fill_n(memory.data(), memory.size(), std::byte{0xff});  // NaN of either type
  const auto to = RoundedRows::over({memory.data(), memory.size()}, rows, w.k());
  o.round_rows(x.data(), w.k(), 0, rows / 2, to);
  o.round_rows(x.data(), w.k(), rows / 2, rows, to);
  Floats y(static_cast<std::size_t>(rows * w.n()));
  o.gemm_rounded(w, 0, w.panels(), to, 0, rows, y.data(), w.n());
  return y;
}

/// Random bf16 values, denormal ones too, of magnitudes up to 2^(low + 15).
Floats of_all_sizes(Random& random, std::int64_t n, int low) {
  Floats v = random.floats(n);
  for (float& x : v) x = std::ldexp(x, low + static_cast<int>(random.below(16)));
  return rounded(std::move(v));
}

}  // namespace

TEST_CASE("gemm is one fma chain per output, odd before even k, at every shape and level") {
  Random random(10);
  for (const std::int64_t n : {1, 17, 64, 65, 130}) {
    for (const std::int64_t k : {0, 1, 31, 128, 300}) {
      const RandomMatrix w(random, n, k);
      for (const std::int64_t rows : {0, 1, 2, 3, 5, 6, 7, 13}) {
        const std::int64_t ldx = k + 3, ldy = n + 5;
        Floats x = random.floats(rows * ldx);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t i = k; i < ldx; ++i) x[static_cast<std::size_t>(r * ldx + i)] = kNan;
        }
        for (const Isa isa : supported_isas()) {
          INFO(to_string(isa) << " n " << n << " k " << k << " rows " << rows);
          Floats y(static_cast<std::size_t>(rows * ldy), 7.0F);
          ops(isa).gemm(w.packed, 0, w.packed.panels(), x.data(), ldx, rows, y.data(), ldy);
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < ldy; ++c) {
              const float want =
                  c < n ? one_output(x.data() + r * ldx, w.plain.data() + c * k, k) : 7.0F;
              REQUIRE(float_bits(y[static_cast<std::size_t>(r * ldy + c)]) == float_bits(want));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("gemm_rounded is gemm of rounded rows without denormals, at every shape and level") {
  Random random(15);
  for (const std::int64_t n : {1, 64, 130}) {
    for (const std::int64_t k : {0, 1, 33, 128}) {
      const RandomMatrix w(random, n, k);
      for (const std::int64_t rows : {1, 2, 3, 5, 6, 13}) {
        const Floats x = random.floats(rows * k);
        const Floats near = rounded(x);
        Floats want;
        {
          const FlushDenormals flush;
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < n; ++c) {
              want.push_back(one_output(near.data() + r * k, w.plain.data() + c * k, k));
            }
          }
        }
        for (const Level& level : rounding_levels()) {
          INFO(level.name << " n " << n << " k " << k << " rows " << rows);
          REQUIRE(same_bits(multiply_rounded(level.ops, w.packed, x, rows), want));
        }
      }
    }
  }
}

TEST_CASE("products of rounded rows have the same bits wherever numbers overflow or vanish") {
  Random random(16);
  constexpr std::int64_t n = 64, k = 7, rows = 12;
  const std::vector<Level> levels = rounding_levels();
  int denormal = 0, infinite = 0;
  for (int round = 0; round < (cairn::testing::kSanitized ? 10 : 60); ++round) {
    // Products of about 1, of the smallest normal numbers, of the largest, and denormal factors.
    constexpr std::array<std::array<int, 2>, 4> kSizes{{{-8, -8}, {-70, -70}, {56, 56}, {-135, 0}}};
    const auto [x_size, w_size] = kSizes[static_cast<std::size_t>(round) % kSizes.size()];
    PackedMatrix w(n, k);
    w.pack(0, n, of_all_sizes(random, n * k, w_size).data());
    const Floats x = of_all_sizes(random, rows * k, x_size);
    const Floats first = multiply_rounded(levels.front().ops, w, x, rows);
    for (const float y : first) {
      infinite += std::isinf(y) ? 1 : 0;
      denormal += std::fpclassify(y) == FP_SUBNORMAL ? 1 : 0;
    }
    for (const Level& level : levels) {
      INFO(level.name << " round " << round);
      const Floats y = multiply_rounded(level.ops, w, x, rows);
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (std::isnan(first[i])) {
          REQUIRE(std::isnan(y[i]));
        } else {
          REQUIRE(float_bits(y[i]) == float_bits(first[i]));
        }
      }
    }
  }
  REQUIRE(denormal == 0);
  REQUIRE(infinite > 0);
}

TEST_CASE("round_rows rounds to nearest even at every bit pattern's neighbourhood") {
  constexpr std::int64_t k = 4 * 0x10000;
  Floats x(k);
  for (std::uint32_t i = 0; i < k; ++i) {
    constexpr std::uint32_t kLow[] = {0, 0x7fff, 0x8000, 0x8001};
    x[i] = bits_float(i / 4 << 16 | kLow[i % 4]);
  }
  HugeBuffer memory(RoundedRows::bytes(1, k));
  const auto to = RoundedRows::over({memory.data(), memory.size()}, 1, k);
  for (const Level& level : rounding_levels()) {
    INFO(level.name);
    const bool halves = level.ops.round_rows == shared::round_rows_bf16;
    level.ops.round_rows(x.data(), k, 0, 1, to);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const float want = to_float(to_bf16(x[static_cast<std::size_t>(i)]));
      const float got = halves ? to_float(reinterpret_cast<const Bf16*>(to.data)[i])
                               : reinterpret_cast<const float*>(to.data)[i];
      wrong += std::isnan(want) ? !std::isnan(got) : float_bits(got) != float_bits(want);
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("gemm agrees with an fp64 reference to k ulp, across K panels") {
  Random random(11);
  constexpr std::int64_t n = 70, k = 5000, rows = 7;
  const RandomMatrix w(random, n, k);
  const Floats x = random.floats(rows * k);
  std::vector<double> want(n * rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        sum += static_cast<double>(x[static_cast<std::size_t>(r * k + i)]) *
               static_cast<double>(w.plain[static_cast<std::size_t>(c * k + i)]);
      }
      want[static_cast<std::size_t>(r * n + c)] = sum;
    }
  }
  const Floats y = same_at_every_level([&](const Ops& o) {
    Floats out(n * rows);
    o.gemm(w.packed, 0, 2, x.data(), k, rows, out.data(), n);
    return out;
  });
  REQUIRE(worst_error(y, want, 40.0) < 1e-5);
  for (std::int64_t c = 0; c < n; ++c) {
    REQUIRE(y[static_cast<std::size_t>(c)] == one_output(x.data(), w.plain.data() + c * k, k));
  }
}

TEST_CASE("a row alone has the bits it has in a batch, for every row count from 1 to 17") {
  Random random(12);
  constexpr std::int64_t n = 200, k = 2100;
  const RandomMatrix w(random, n, k);
  const Floats x = random.floats(17 * k);
  for (const Isa isa : supported_isas()) {
    const auto gemm = ops(isa).gemm;
    Floats alone(17 * n);
    for (std::int64_t r = 0; r < 17; ++r) {
      gemm(w.packed, 0, 4, x.data() + r * k, k, 1, alone.data() + r * n, n);
    }
    for (std::int64_t rows = 1; rows <= 17; ++rows) {
      INFO(to_string(isa) << " rows " << rows);
      Floats y(static_cast<std::size_t>(rows * n));
      gemm(w.packed, 0, 4, x.data(), k, rows, y.data(), n);
      REQUIRE(same_bits(y.data(), alone.data(), rows * n));
      // The last rows of the batch, so that a row also moves between tiles.
      gemm(w.packed, 0, 4, x.data() + (17 - rows) * k, k, rows, y.data(), n);
      REQUIRE(same_bits(y.data(), alone.data() + (17 - rows) * n, rows * n));
    }
  }
}

TEST_CASE("a rounded row alone has the bits it has in a batch, across K panels") {
  Random random(17);
  constexpr std::int64_t n = 70, k = 2100, rows = 17;
  const RandomMatrix w(random, n, k);
  const Floats x = random.floats(rows * k);
  for (const Level& level : rounding_levels()) {
    INFO(level.name);
    const Floats all = multiply_rounded(level.ops, w.packed, x, rows);
    for (std::int64_t r = 0; r < rows; r += 5) {
      const Floats one(x.begin() + r * k, x.begin() + (r + 1) * k);
      const Floats alone = multiply_rounded(level.ops, w.packed, one, 1);
      REQUIRE(same_bits(alone.data(), all.data() + r * n, n));
    }
  }
}

TEST_CASE("splitting panels over threads changes no bit") {
  Random random(13);
  constexpr std::int64_t n = 1000, k = 77, rows = 9;
  const RandomMatrix w(random, n, k);
  const Floats x = random.floats(rows * k);
  for (const Isa isa : supported_isas()) {
    Floats whole(rows * n), split(rows * n);
    ops(isa).gemm(w.packed, 0, w.packed.panels(), x.data(), k, rows, whole.data(), n);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      std::fill(split.begin(), split.end(), 0.0F);
      pool.run(w.packed.panels(), [&](std::int64_t p) {
        ops(isa).gemm(w.packed, p, p + 1, x.data(), k, rows, split.data(), n);
      });
      REQUIRE(same_bits(whole, split));
    }
  }
}

TEST_CASE("a NaN row stays in its row") {
  Random random(14);
  constexpr std::int64_t n = 64, k = 50, rows = 7;
  const RandomMatrix w(random, n, k);
  Floats x = random.floats(rows * k);
  Floats clean(rows * n), poisoned(rows * n);
  for (const Isa isa : supported_isas()) {
    Floats bad = x;
    std::fill(bad.begin() + 3 * k, bad.begin() + 4 * k, kNan);
    ops(isa).gemm(w.packed, 0, 1, x.data(), k, rows, clean.data(), n);
    ops(isa).gemm(w.packed, 0, 1, bad.data(), k, rows, poisoned.data(), n);
    REQUIRE(same_bits(clean.data(), poisoned.data(), 3 * n));
    REQUIRE(same_bits(clean.data() + 4 * n, poisoned.data() + 4 * n, 3 * n));
    REQUIRE(std::isnan(poisoned[3 * n]));
  }
}

}  // namespace cairn::kernels::testing
