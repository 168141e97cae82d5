// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm.hpp"

#include "base/check.hpp"
#include "kernels/cuda/pointwise.hpp"
#include "tests/simt/gemm_case.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

constexpr GemmPlan kOneRow{GemmTileSize::rows_16_columns_64, true};

struct Shape {
  const char* name;
  std::int64_t n, k;
};
constexpr Shape kWeights[] = {
    {"recurrent in", 6144 + 2048 + 16 + 16, 1024},
    {"attention in", 4096 + 512 + 512, 1024},
    {"mixer out", 1024, 2048},
    {"gate and up", 7168, 1024},
    {"down", 1024, 3584},
    {"head", 248320, 1024},
};

Floats row_of(const Floats& all, std::int64_t row, std::int64_t n) {
  return Floats(all.begin() + row * n, all.begin() + (row + 1) * n);
}

}  // namespace

TEST_CASE("gemm adds in the documented order at every edge of a tile, whatever the plan") {
  // A weight of so few columns has a segment every 64 values of k.
  const std::int64_t shapes[][3] = {
      {1, 4, 8},      {1, 64, 64},   {15, 60, 56},  {16, 64, 72},   {17, 68, 128},
      {63, 60, 136},  {64, 64, 192}, {65, 68, 200}, {127, 124, 64}, {128, 128, 96},
      {129, 132, 72}, {1, 200, 64},  {3, 64, 320},
  };
  for (const auto& [rows, n, k] : shapes) {
    const GemmCase c = gemm_case(rows, n, k);
    const Floats one_row = run_gemm(c, kOneRow);
    REQUIRE(same_sums(one_row, gemm_in_order(c), 2e-5));
    for (const GemmPlan& plan : all_plans()) {
      INFO(rows << " rows, n " << n << ", k " << k << ", " << to_string(plan));
      REQUIRE(same_bits(run_gemm(c, plan), one_row));
    }
    REQUIRE(same_bits(run_gemm<Bf16>(c, kOneRow), rounded<Bf16>(one_row)));
  }
}

TEST_CASE("gemm keeps its order where a segment has several steps and the last one fewer") {
  const GemmCase c = gemm_case(2, 66 * 64 + 4, 200);
  REQUIRE(gemm_segment_depth(c.n, c.k) == 128);
  const Floats one_row = run_gemm(c, kOneRow);
  REQUIRE(same_sums(one_row, gemm_in_order(c), 2e-5));
  REQUIRE(same_bits(run_gemm(c, {GemmTileSize::rows_16_columns_64, false}), one_row));
  REQUIRE(same_bits(run_gemm(c, {GemmTileSize::rows_128_columns_128, false}), one_row));
}

TEST_CASE("a row of gemm has the bits it has alone, decoded or in a prompt") {
  const GemmCase all = gemm_case(130, 136, 200);
  const Floats prompt = run_gemm(all, {GemmTileSize::rows_128_columns_128, false});
  for (const std::int64_t row : {0, 1, 7, 8, 15, 16, 63, 64, 127, 128, 129}) {
    GemmCase alone{1, all.n, all.k, {}, all.w};
    alone.x.assign(all.x.begin() + row * all.k, all.x.begin() + (row + 1) * all.k);
    REQUIRE(same_bits(run_gemm(alone, gemm_plan(1, all.n, all.k)), row_of(prompt, row, all.n)));
  }
}

TEST_CASE("a row of gemm does not see what its neighbours hold") {
  GemmCase c = gemm_case(40, 68, 136);
  const Floats before = run_gemm(c, kOneRow);
  for (std::int64_t i = 0; i < c.rows * c.k; ++i) {
    if (i / c.k != 17) c.x[at(i)] = to_bf16(i % 2 == 0 ? kNan : kInfinity);
  }
  for (const GemmPlan& plan : all_plans()) {
    REQUIRE(same_bits(row_of(run_gemm(c, plan), 17, c.n), row_of(before, 17, c.n)));
  }
}

TEST_CASE("gemm agrees with the CPU kernel up to the order of its sum") {
  const GemmCase c = gemm_case(5, 192, 512);
  PackedMatrix packed(c.n, c.k);
  packed.pack(0, c.n, c.w.data());
  const Floats x = as_floats(c.x);
  Floats want(at(c.rows * c.n));
  cpu().gemm(packed, 0, packed.panels(), x.data(), c.k, c.rows, want.data(), c.n);
  REQUIRE(worst_error(run_gemm(c, kOneRow), want, 1.0) < (simt::kOnDevice ? 1e-4 : 1e-5));
}

TEST_CASE("gemm_swiglu has the bits of gemm and swiglu") {
  for (const auto& [rows, n, k] : {std::array<std::int64_t, 3>{1, 192, 64},
                                   {17, 8, 136},
                                   {65, 120, 72},
                                   {129, 136, 128},
                                   {3, 264, 200}}) {
    const GemmCase c = gemm_case(rows, n, k);
    const Buffer<float> both(run_gemm(c, kOneRow));
    Buffer<Bf16> want(at(rows * n / 2));
    swiglu<Bf16>(nullptr, {both.data(), n, both.data() + n / 2, n, rows, n / 2, want.data()});
    for (const GemmPlan& plan : all_plans()) {
      INFO(rows << " rows, n " << n << ", k " << k << ", " << to_string(plan));
      REQUIRE(same_bits(run_gemm<Bf16>(c, plan, true), as_floats(want.read())));
    }
  }
}

TEST_CASE("launches of gemm may follow each other in one workspace") {
  const GemmCase c = gemm_case(20, 132, 200);
  const Buffer<Bf16> x(c.x), w(c.w);
  Buffer<float> y(at(c.rows * c.n));
  Workspace workspace(kOneRow, c.rows, c.n, c.k);
  const Floats want = run_gemm(c, kOneRow);
  for (int i = 0; i < 3; ++i) {
    gemm<Bf16Weight, float>(
        nullptr, {x.data(), c.k, c.rows, {w.data()}, c.n, c.k, y.data(), c.n, workspace.get()},
        kOneRow);
    REQUIRE(same_bits(y.read(), want));
  }
}

TEST_CASE("no rows launch no gemm") {
  const std::int64_t before = simt::launches();
  gemm<Bf16Weight, float>(nullptr, {nullptr, 64, 0, {nullptr}, 64, 64, nullptr, 64, {}},
                          {GemmTileSize::rows_16_columns_64, false});
  REQUIRE(simt::launches() == before);
}

TEST_CASE("gemm refuses shapes that no kernel takes") {
  GemmArgs<Bf16Weight, float> good;
  good.rows = 0;
  good.ldx = good.n = good.k = good.ldy = 64;
  const GemmPlan whole{GemmTileSize::rows_16_columns_64, false};
  gemm(nullptr, good, whole);
  const auto refused = [&](auto change, const GemmPlan& plan) {
    GemmArgs<Bf16Weight, float> args = good;
    change(args);
    REQUIRE_THROWS_AS(gemm(nullptr, args, plan), InvariantError);
  };
  refused([](auto& a) { a.n = 62; }, whole);
  refused([](auto& a) { a.k = 60; }, whole);
  refused([](auto& a) { a.k = 0; }, whole);
  refused([](auto& a) { a.k = kMaxGemmDepth + 8; }, whole);
  refused([](auto& a) { a.ldx = 68; }, whole);
  refused([](auto& a) { a.ldy = 66; }, whole);
  refused([](auto&) {}, kOneRow);  // no workspace
  GemmArgs<Bf16Weight, Bf16> pairs;
  pairs.ldx = pairs.k = pairs.ldy = 64;
  pairs.n = 60;
  REQUIRE_THROWS_AS(gemm_swiglu(nullptr, pairs, whole), InvariantError);
}

TEST_CASE("gemm reads its weight once for one row, in whole sectors and without bank conflicts") {
  const GemmCase c = gemm_case(1, 256, 512);
  Counting counting(simt::Blocks::may_meet);
  run_gemm(c, gemm_plan(1, c.n, c.k));
  require_efficient(counting.of("gemm"), 2 * c.n * c.k + 2 * c.k + 4 * c.n);
}

TEST_CASE("gemm reads each operand once a tile and writes whole sectors without bank conflicts") {
  const GemmCase c = gemm_case(128, 128, 128);
  for (const auto& [tile, rows, columns] :
       {std::tuple<GemmTileSize, int, int>{GemmTileSize::rows_16_columns_64, 16, 64},
        {GemmTileSize::rows_64_columns_64, 64, 64},
        {GemmTileSize::rows_128_columns_128, 128, 128}}) {
    for (const bool swiglu : {false, true}) {
      Counting counting;
      run_gemm<Bf16>(c, {tile, false}, swiglu);
      const Counters counted = counting.of(swiglu ? "gemm_swiglu" : "gemm");
      INFO(rows << " x " << columns);
      REQUIRE(counted.launches == 1);
      REQUIRE(counted.loads.bytes == 2 * c.k * (c.n / columns * c.rows + c.rows / rows * c.n));
      REQUIRE(counted.stores.bytes == 2 * c.rows * c.n / (swiglu ? 2 : 1));
      REQUIRE(counted.loads.efficiency() == 1.0);
      REQUIRE(counted.stores.efficiency() == 1.0);
      REQUIRE(counted.shared.conflicts == 0);
    }
  }
}

TEST_CASE("every weight gives one row at least as many blocks as an H200 has multiprocessors") {
  for (const Shape& w : kWeights) {
    INFO(w.name);
    const Grid grid = gemm_grid(gemm_plan(1, w.n, w.k), 1, w.n, w.k);
    REQUIRE(grid.blocks() >= kGemmBlocks);
    REQUIRE(grid.z == gemm_segments(w.n, w.k));
    REQUIRE(gemm_segments(w.n, w.k) * gemm_segment_depth(w.n, w.k) >= w.k);
    REQUIRE((gemm_segments(w.n, w.k) - 1) * gemm_segment_depth(w.n, w.k) < w.k);
  }
  REQUIRE(gemm_segments(8224, 1024) == 2);
  REQUIRE(gemm_segments(1024, 2048) == 11);
  REQUIRE(gemm_segments(1024, 3584) == 10);
  REQUIRE(gemm_segments(248320, 1024) == 1);
}

TEST_CASE("a gemm is planned by the bucket of its rows") {
  const std::int64_t buckets[][2] = {{1, 16},      {16, 16},     {17, 64},    {64, 64},
                                     {65, 256},    {256, 256},   {257, 1024}, {1024, 1024},
                                     {1025, 2048}, {2048, 2048}, {8000, 8192}};
  for (const auto& [rows, bucket] : buckets) {
    REQUIRE(gemm_bucket(rows) == bucket);
    for (const Shape& w : kWeights) {
      REQUIRE(gemm_plan(rows, w.n, w.k) == gemm_plan(bucket, w.n, w.k));
    }
  }
  using enum GemmTileSize;
  REQUIRE(gemm_plan(1, 1024, 2048) == GemmPlan{rows_16_columns_64, true});
  REQUIRE(gemm_plan(1, 248320, 1024) == GemmPlan{rows_16_columns_64, false});
  REQUIRE(gemm_plan(64, 1024, 2048) == GemmPlan{rows_64_columns_64, true});
  REQUIRE(gemm_plan(1024, 1024, 2048) == GemmPlan{rows_64_columns_64, false});
  REQUIRE(gemm_plan(1024, 7168, 1024) == GemmPlan{rows_128_columns_128, false});
  REQUIRE(gemm_plan(8192, 1024, 3584) == GemmPlan{rows_128_columns_128, false});
  REQUIRE(gemm_grid({rows_64_columns_64, true}, 65, 68, 130) == Grid{2, 2, 3});
  REQUIRE(gemm_grid({rows_128_columns_128, false}, 129, 128, 130) == Grid{2, 1, 1});
  REQUIRE(gemm_workspace({rows_64_columns_64, true}, 65, 68, 130) ==
          GemmWorkspaceSize{3 * 65 * 68, 4});
  REQUIRE(gemm_workspace({rows_64_columns_64, false}, 65, 68, 130) == GemmWorkspaceSize{});
}

}  // namespace cairn::kernels::cuda::testing
