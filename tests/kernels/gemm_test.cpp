// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_pool.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

/// The order that docs/order.md promises, one output at a time.
float one_output(const float* x, const float* w, std::int64_t k) {
  float acc = 0.0F;
  for (std::int64_t i = 0; i < k; ++i) acc = std::fma(x[i], w[i], acc);
  return acc;
}

}  // namespace

TEST_CASE("gemm is one fma chain per output, k ascending, at every shape and level") {
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
