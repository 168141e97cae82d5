// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "tests/simt/gemm_case.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

struct Quantized {
  std::vector<std::int8_t> q;
  Bf16s scales;
  std::int32_t group;
};

Quantized quantize(const GemmCase& c, std::int32_t group) {
  Quantized w{std::vector<std::int8_t>(c.w.size()), Bf16s(at(ceil_div(c.k, group) * c.n)), group};
  quantize_int8(c.w.data(), c.n, c.k, group, w.q.data(), w.scales.data());
  return w;
}

/// What each element stands for.
Bf16s values_of(const Quantized& w, std::int64_t n, std::int64_t k) {
  Bf16s values(at(n * k));
  for (std::int64_t i = 0; i < n * k; ++i) {
    const std::int64_t row = i / k, j = i % k;
    const auto q = static_cast<float>(w.q[at(row * k + j / 16 * 16 + int8_slot(j % 16))]);
    values[at(i)] = to_bf16(q * to_float(w.scales[at(j / w.group * n + row)]));
  }
  return values;
}

template <class Out = float>
Floats run_int8(const GemmCase& c, const Quantized& w, const GemmPlan& plan, bool swiglu = false) {
  const Buffer<std::int8_t> q(w.q);
  const Buffer<Bf16> scales(w.scales);
  return run_gemm<Out>(c, Int8Weight{q.data(), scales.data(), w.group}, plan, swiglu);
}

}  // namespace

TEST_CASE("a slot for each of 16 values of k") {
  std::vector<std::int64_t> slots;
  for (std::int64_t j = 0; j < 16; ++j) slots.push_back(int8_slot(j));
  REQUIRE(slots == std::vector<std::int64_t>{0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15});
}

TEST_CASE("int8 weights are within half a step of the values they stand for") {
  for (const std::int32_t group : {32, 64, 128}) {
    GemmCase c = gemm_case(1, 5, 272);
    std::fill_n(c.w.begin() + c.k, c.k, to_bf16(0.0F));  // a row of zeros has the scale 0
    c.w[0] = to_bf16(-300.0F);
    const Quantized w = quantize(c, group);
    const Bf16s values = values_of(w, c.n, c.k);
    REQUIRE(std::none_of(w.q.begin(), w.q.end(), [](std::int8_t q) { return q == -128; }));
    for (std::int64_t i = 0; i < c.n * c.k; ++i) {
      const float want = to_float(c.w[at(i)]);
      const float scale = to_float(w.scales[at(i % c.k / group * c.n + i / c.k)]);
      // Half a step, the step's own rounding at the largest value, and the value's to bf16.
      const float allowed = 0.5F * scale + std::fabs(want) * 0x1p-7F;
      REQUIRE(std::fabs(to_float(values[at(i)]) - want) <= allowed);
    }
  }
}

TEST_CASE("gemm with int8 weights has the bits of the bf16 weights they stand for, in every plan") {
  const std::int64_t shapes[][4] = {
      {1, 64, 64, 32},   {15, 56, 48, 64}, {17, 72, 80, 128},   {17, 64, 272, 128},
      {65, 64, 208, 64}, {33, 72, 96, 32}, {129, 136, 144, 32}, {2, 128, 128, 96},
  };
  for (const auto& [rows, n, k, group] : shapes) {
    GemmCase c = gemm_case(rows, n, k);
    const Quantized w = quantize(c, static_cast<std::int32_t>(group));
    c.w = values_of(w, n, k);
    const Floats want = run_gemm(c, all_plans()[0]);
    for (const GemmPlan& plan : all_plans()) {
      INFO(rows << " rows, n " << n << ", k " << k << ", group " << group << ", "
                << to_string(plan));
      REQUIRE(same_bits(run_int8(c, w, plan), want));
    }
  }
}

TEST_CASE("gemm_swiglu with int8 weights has the bits of the bf16 weights they stand for") {
  for (const auto& [rows, n, k] : {std::array<std::int64_t, 3>{1, 192, 64}, {65, 112, 80}}) {
    GemmCase c = gemm_case(rows, n, k);
    const Quantized w = quantize(c, 64);
    c.w = values_of(w, n, k);
    const Floats want = run_gemm<Bf16>(c, all_plans()[0], true);
    for (const GemmPlan& plan : all_plans()) {
      REQUIRE(same_bits(run_int8<Bf16>(c, w, plan, true), want));
    }
  }
}

TEST_CASE("gemm reads its int8 weight once for one row, in whole sectors and without conflicts") {
  const GemmCase c = gemm_case(1, 128, 2048);
  const Quantized w = quantize(c, 128);
  Counting counting;
  run_int8(c, w, {GemmTileSize::rows_16_columns_64, false});
  require_efficient(counting.of("gemm"), c.n * c.k + 2 * c.n * c.k / 128 + 2 * c.k + 4 * c.n);
}

TEST_CASE("the larger tiles read int8 weights without bank conflicts") {
  const GemmCase c = gemm_case(128, 128, 128);
  const Quantized w = quantize(c, 32);
  for (const auto tile : {GemmTileSize::rows_64_columns_64, GemmTileSize::rows_128_columns_128}) {
    Counting counting;
    run_int8(c, w, {tile, false});
    REQUIRE(counting.of("gemm").shared.conflicts == 0);
    REQUIRE(counting.of("gemm").loads.efficiency() == 1.0);
  }
}

TEST_CASE("int8 weights of other groups and shapes are refused") {
  GemmArgs<Int8Weight, float> good;
  good.ldx = good.n = good.k = good.ldy = 64;
  good.weight.group = 32;
  const GemmPlan plan{GemmTileSize::rows_16_columns_64, false};
  gemm(nullptr, good, plan);
  const auto refused = [&](auto change) {
    GemmArgs<Int8Weight, float> args = good;
    change(args);
    REQUIRE_THROWS_AS(gemm(nullptr, args, plan), InvariantError);
  };
  refused([](auto& a) { a.weight.group = 0; });
  refused([](auto& a) { a.weight.group = 48; });
  refused([](auto& a) { a.k = 72; });
  refused([](auto& a) { a.n = 68; });
  GemmArgs<Int8Weight, Bf16> pairs;
  pairs.ldx = pairs.k = pairs.ldy = 64;
  pairs.n = 72;
  pairs.weight.group = 32;
  REQUIRE_THROWS_AS(gemm_swiglu(nullptr, pairs, plan), InvariantError);
  REQUIRE_THROWS_AS(quantize_int8(nullptr, 0, 64, 16, nullptr, nullptr), InvariantError);
  REQUIRE_THROWS_AS(quantize_int8(nullptr, 0, 24, 32, nullptr, nullptr), InvariantError);
}

}  // namespace cairn::kernels::cuda::testing
