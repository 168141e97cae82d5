// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/quantised.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

constexpr WeightFormat kIntegerFormats[] = {WeightFormat::int8, WeightFormat::int4};

/// Memory and views of the quantised rows of x.
struct Quantised {
  Quantised(const Ops& o, WeightFormat format, const float* x, std::int64_t ldx, std::int64_t rows,
            std::int64_t k)
      : memory(QuantRows::bytes(rows, k, format)),
        rows_(QuantRows::over({memory.data(), memory.size()}, rows, k, format)) {
    std::fill(memory.data(), memory.data() + memory.size(), std::byte{0x7f});
    o.quantise_rows(x, ldx, 0, rows, rows_);
  }
  HugeBuffer memory;
  QuantRows rows_;
};

/// A matrix of an integer format and its weights as the layout describes them, read back without
/// the kernels' help.
struct IntegerMatrix {
  IntegerMatrix(Random& random, std::int64_t n, std::int64_t k, WeightFormat format)
      : packed(n, k, format), plain(random.floats(n * k)) {
    packed.pack(0, n, plain.data());
  }

  float scale(std::int64_t column, std::int64_t g) const {
    Bf16 scale;
    std::memcpy(&scale, group(column, g) + 2 * PackedMatrix::slot(column % 64), sizeof scale);
    return to_float(scale);
  }
  int weight(std::int64_t column, std::int64_t k) const {
    const std::int64_t size = quant_group(packed.format()), i = k % size;
    const std::byte* at = group(column, k / size) + 128;
    if (packed.format() == WeightFormat::int8) {
      return std::to_integer<int>(at[(i / 4 * 64 + column % 64) * 4 + i % 4]) - 128;
    }
    const int pair = std::to_integer<int>(at[(i / 8 * 64 + column % 64) * 4 + i % 4]);
    return (i % 8 < 4 ? pair % 16 : pair / 16) - 8;
  }
  const std::byte* group(std::int64_t column, std::int64_t g) const {
    return packed.panel_data(column / 64) +
           static_cast<std::size_t>(g) * group_bytes(packed.format());
  }

  PackedMatrix packed;
  Floats plain;  // [n, k] before rounding
};

/// One output in the order that docs/order.md promises: exact sums, groups ascending.
float one_output(const IntegerMatrix& w, std::int64_t column, const QuantRows& x,
                 std::int64_t row) {
  const std::int64_t group = quant_group(x.format);
  float y = 0.0F;
  for (std::int64_t g = 0; g < x.groups; ++g) {
    std::int64_t sum = 0;
    for (std::int64_t i = g * group; i < std::min(x.k, (g + 1) * group); ++i) {
      sum += x.values[row * x.ld + i] * w.weight(column, i);
    }
    y = std::fma(static_cast<float>(sum), x.scales[row * x.groups + g] * w.scale(column, g), y);
  }
  return y;
}

}  // namespace

TEST_CASE("a quantised product is exact integer sums folded group by group at every shape") {
  Random random(40);
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::int64_t n : {1, 64, 130}) {
      for (const std::int64_t k : {0, 5, 64, 128, 300, 1100}) {
        const IntegerMatrix w(random, n, k, format);
        for (const std::int64_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 13, 32, 35, 69}) {
          if (k > 300 && rows != 7 && rows != 35) continue;
          if (rows > 13 && n < 130) continue;
          const std::int64_t ldx = k + 3, ldy = n + 5;
          Floats x = random.floats(rows * ldx);
          for (std::int64_t r = 0; r < rows; ++r) {
            std::fill_n(x.begin() + r * ldx + k, 3, kNan);
          }
          Floats want;
          for (const Isa isa : supported_isas()) {
            INFO(to_string(isa) << ' ' << to_string(format) << " n " << n << " k " << k << " rows "
                                << rows);
            const Quantised a(ops(isa), format, x.data(), ldx, rows, k);
            if (isa == Isa::portable) {
              want.assign(static_cast<std::size_t>(rows * ldy), 7.0F);
              for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t c = 0; c < n; ++c) {
                  want[static_cast<std::size_t>(r * ldy + c)] = one_output(w, c, a.rows_, r);
                }
              }
            }
            Floats y(static_cast<std::size_t>(rows * ldy), 7.0F);
            ops(isa).gemm_quantised(w.packed, 0, w.packed.panels(), a.rows_, 0, rows, y.data(),
                                    ldy);
            REQUIRE(same_bits(y, want));
          }
        }
      }
    }
  }
}

TEST_CASE("sums of the largest weights and activations are exact, however many rows") {
  constexpr std::int64_t n = 64, k = 256, kRows = 40;
  for (const WeightFormat format : kIntegerFormats) {
    Random random(42);
    IntegerMatrix w(random, n, k, format);
    for (std::int64_t i = 0; i < n * k; ++i) w.plain[i] = i / k % 2 == 0 ? 1.0F : -1.0F;
    w.packed.pack(0, n, w.plain.data());
    Floats x(kRows * k);
    for (std::int64_t i = 0; i < kRows * k; ++i) x[i] = i / k % 3 == 0 ? -1.0F : 1.0F;
    for (const Isa isa : supported_isas()) {
      const Quantised a(ops(isa), format, x.data(), k, kRows, k);
      for (const std::int64_t rows : {1, 6, 40}) {
        INFO(to_string(isa) << ' ' << to_string(format) << " rows " << rows);
        Floats y(static_cast<std::size_t>(rows * n));
        ops(isa).gemm_quantised(w.packed, 0, 1, a.rows_, 0, rows, y.data(), n);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < n; ++c)
            REQUIRE(y[r * n + c] == one_output(w, c, a.rows_, r));
        }
      }
    }
  }
}

TEST_CASE("a quantised row has the same bits in any batch, from any row on, in any panel range") {
  Random random(41);
  constexpr std::int64_t n = 200, k = 700, kRows = 37;
  for (const WeightFormat format : kIntegerFormats) {
    const IntegerMatrix w(random, n, k, format);
    const Floats x = random.floats(kRows * k);
    for (const Isa isa : supported_isas()) {
      const Ops& o = ops(isa);
      const Quantised all(o, format, x.data(), k, kRows, k);
      Floats alone(kRows * n);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const Quantised one(o, format, x.data() + r * k, k, 1, k);
        o.gemm_quantised(w.packed, 0, 4, one.rows_, 0, 1, alone.data() + r * n, n);
      }
      for (std::int64_t begin = 0; begin < kRows; ++begin) {
        INFO(to_string(isa) << ' ' << to_string(format) << " from " << begin);
        Floats y(static_cast<std::size_t>((kRows - begin) * n));
        ThreadPool pool(2);
        pool.run(4, [&](std::int64_t p) {
          o.gemm_quantised(w.packed, p, p + 1, all.rows_, begin, kRows - begin, y.data(), n);
        });
        REQUIRE(same_bits(y.data(), alone.data() + begin * n, (kRows - begin) * n));
      }
    }
  }
}

TEST_CASE("activations are rounded to the nearest of 255 steps, groups by themselves") {
  Random random(42);
  constexpr std::int64_t k = 300;
  Floats x = random.floats(k, -3.0F, 3.0F);
  std::fill_n(x.begin() + 128, 128, 0.0F);
  x[256] = 0x1p-120F;  // the last group of int8: far below its neighbour
  x[257] = 0x1p100F;
  for (const WeightFormat format : kIntegerFormats) {
    const std::int64_t group = quant_group(format);
    for (const Isa isa : supported_isas()) {
      const Quantised a(ops(isa), format, x.data(), k, 1, k);
      for (std::int64_t g = 0; g < a.rows_.groups; ++g) {
        const std::int64_t end = std::min(k, (g + 1) * group);
        float largest = 0.0F;
        for (std::int64_t i = g * group; i < end; ++i) {
          largest = std::max(largest, std::abs(x[static_cast<std::size_t>(i)]));
        }
        REQUIRE(a.rows_.scales[g] == largest / 127.0F);
        std::int32_t sum = 0;
        for (std::int64_t i = g * group; i < (g + 1) * group; ++i) {
          const float value = i < end ? x[static_cast<std::size_t>(i)] : 0.0F;
          const float want = largest == 0.0F ? 0.0F : std::nearbyint(value * (127.0F / largest));
          REQUIRE(static_cast<float>(a.rows_.values[i]) == want);
          sum += a.rows_.values[i];
        }
        REQUIRE(a.rows_.corrections[g] == -quant_zero(format) * sum);
      }
    }
  }
}

TEST_CASE("a row that is not finite gives NaN and leaves other rows alone; a tiny one gives zero") {
  Random random(43);
  constexpr std::int64_t n = 70, k = 200, rows = 7;
  for (const WeightFormat format : kIntegerFormats) {
    const IntegerMatrix w(random, n, k, format);
    const Floats x = random.floats(rows * k);
    for (const float poison : {kNan, kInfinity, -kInfinity}) {
      same_at_every_level([&](const Ops& o) {
        Floats bad = x;
        bad[3 * k + 150] = poison;
        std::fill_n(bad.begin() + 5 * k, k, 0x1p-110F);
        Floats clean(rows * n), y(rows * n);
        o.gemm_quantised(w.packed, 0, 2, Quantised(o, format, x.data(), k, rows, k).rows_, 0, rows,
                         clean.data(), n);
        o.gemm_quantised(w.packed, 0, 2, Quantised(o, format, bad.data(), k, rows, k).rows_, 0,
                         rows, y.data(), n);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < n; ++c) {
            const float got = y[static_cast<std::size_t>(r * n + c)];
            if (r == 3) {
              REQUIRE(std::isnan(got));
            } else {
              REQUIRE(got == (r == 5 ? 0.0F : clean[static_cast<std::size_t>(r * n + c)]));
            }
          }
        }
        return y;
      });
    }
  }
}

TEST_CASE("packing quantises every column alike, whatever the split and the source") {
  Random random(44);
  for (const WeightFormat format : kIntegerFormats) {
    for (const std::int64_t n : {1, 65, 130}) {
      for (const std::int64_t k : {3, 128, 190}) {
        const RandomMatrix source(random, n, k);
        std::vector<Bf16> rows(source.plain.size());
        std::transform(source.plain.begin(), source.plain.end(), rows.begin(), to_bf16);
        PackedMatrix whole(n, k, format), pieces(n, k, format);
        whole.pack(0, n, rows.data());
        const std::int64_t a = n / 3, b = n / 2;
        pieces.pack(b, n - b, source.plain.data() + b * k);
        pieces.pack(0, a, source.plain.data());
        pieces.pack(a, b - a, source.plain.data() + a * k);
        REQUIRE(whole.memory().size() == whole.bytes());
        REQUIRE(std::memcmp(whole.memory().data(), pieces.memory().data(), whole.bytes()) == 0);
      }
    }
  }
}

TEST_CASE("an embedding from integer weights is the integers times their scale, near the weights") {
  Random random(45);
  constexpr std::int64_t n = 70, k = 300;
  for (const WeightFormat format : kIntegerFormats) {
    const IntegerMatrix w(random, n, k, format);
    for (std::int64_t r = 0; r < n; ++r) {
      Floats y(k);
      ops(Isa::portable).embed_packed(w.packed, r, y.data());
      for (std::int64_t i = 0; i < k; ++i) {
        const float step = w.scale(r, i / quant_group(format));
        const float got = y[static_cast<std::size_t>(i)];
        REQUIRE(got == static_cast<float>(w.weight(r, i)) * step);
        // Half a step, and what a scale of bf16 adds; int4 may cut the largest by 1.4 steps when
        // that serves the others.
        const float most = format == WeightFormat::int8 ? 0.52F : 1.6F;
        REQUIRE(std::abs(got - w.plain[static_cast<std::size_t>(r * k + i)]) <=
                most * std::abs(step));
      }
    }
  }
}

TEST_CASE("weights of zero, of any size and of one sign are held; infinite ones are refused") {
  for (const WeightFormat format : kIntegerFormats) {
    for (const float size : {0.0F, 0x1p-133F, 0x1p-100F, 1.0F, -3.0F, 0x1p127F, -0x1p127F}) {
      PackedMatrix w(1, 2, format);
      const float values[] = {size, size / 2};
      w.pack(0, 1, values);
      Floats y(2);
      ops(Isa::portable).embed_packed(w, 0, y.data());
      const float most = std::abs(size) < 0x1p-120F ? 0x1p-120F : 0.07F * std::abs(size);
      REQUIRE(std::abs(y[0] - size) <= most);
      REQUIRE(std::abs(y[1] - size / 2) <= most);
    }
    for (const float bad : {kInfinity, -kInfinity, kNan}) {
      PackedMatrix w(1, 1, format);
      REQUIRE_THROWS_AS(w.pack(0, 1, &bad), InvariantError);
    }
  }
}

TEST_CASE("quantised rows do not fit less memory than they ask for") {
  for (const WeightFormat format : kIntegerFormats) {
    HugeBuffer memory(QuantRows::bytes(5, 200, format));
    const QuantRows x = QuantRows::over({memory.data(), memory.size()}, 5, 200, format);
    REQUIRE(reinterpret_cast<std::byte*>(x.corrections + 5 * x.groups) <=
            memory.data() + memory.size());
    REQUIRE_THROWS_AS(QuantRows::over({memory.data(), memory.size() - 1}, 5, 200, format),
                      InvariantError);
  }
}

}  // namespace cairn::kernels::testing
