// SPDX-License-Identifier: Apache-2.0
// What the tests of the GEMM share: random operands, a run under any plan, and the documented order
// in plain loops.
#pragma once

#include <string>

#include "kernels/cuda/gemm.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {

using kernels::testing::kInfinity;
using kernels::testing::kNan;

using Bf16s = std::vector<Bf16>;

inline Bf16s to_bf16s(const Floats& v) {
  Bf16s narrow(v.size());
  std::transform(v.begin(), v.end(), narrow.begin(), [](float x) { return to_bf16(x); });
  return narrow;
}

struct GemmCase {
  std::int64_t rows, n, k;
  Bf16s x;  // [rows, k]
  Bf16s w;  // [n, k]
};

inline GemmCase gemm_case(std::int64_t rows, std::int64_t n, std::int64_t k) {
  Random random(static_cast<std::uint32_t>(rows * 1000003 + n * 1009 + k));
  return {rows, n, k, to_bf16s(random.floats(rows * k, -2.0F, 2.0F)),
          to_bf16s(random.floats(n * k))};
}

inline std::vector<GemmPlan> all_plans() {
  std::vector<GemmPlan> plans;
  for (const auto tile : {GemmTileSize::rows_16_columns_64, GemmTileSize::rows_64_columns_64,
                          GemmTileSize::rows_128_columns_128}) {
    plans.push_back({tile, false});
    plans.push_back({tile, true});
  }
  return plans;
}

inline std::string to_string(const GemmPlan& plan) {
  const char* const tiles[] = {"16 x 64", "64 x 64", "128 x 128"};
  return std::string(tiles[static_cast<int>(plan.tile)]) + (plan.split ? ", split" : ", whole");
}

/// A workspace of the plan's size.
struct Workspace {
  Workspace(const GemmPlan& plan, std::int64_t rows, std::int64_t n, std::int64_t k)
      : sums(at(gemm_workspace(plan, rows, n, k).sums)),
        arrived(std::vector<std::int32_t>(at(gemm_workspace(plan, rows, n, k).arrived), 0)) {}
  GemmWorkspace get() { return {sums.data(), arrived.data()}; }
  bool clean() const {
    const auto all = arrived.read();
    return std::all_of(all.begin(), all.end(), [](std::int32_t count) { return count == 0; });
  }
  Buffer<float> sums;
  Buffer<std::int32_t> arrived;
};

/// Rows of x and y lie `gap` apart, and the gaps stay as they were.
constexpr std::int64_t kGap = 16;

template <class Out, class Weight>
Floats run_gemm(const GemmCase& c, const Weight& weight, const GemmPlan& plan,
                bool swiglu = false) {
  const std::int64_t columns = swiglu ? c.n / 2 : c.n;
  const std::int64_t ldx = c.k + kGap, ldy = columns + kGap;
  Bf16s spread(at(c.rows * ldx), to_bf16(kNan));
  for (std::int64_t r = 0; r < c.rows; ++r) {
    std::copy_n(c.x.begin() + r * c.k, c.k, spread.begin() + r * ldx);
  }
  const Buffer<Bf16> x(spread);
  Buffer<Out> y(at(c.rows * ldy));
  Workspace workspace(plan, c.rows, c.n, c.k);
  GemmArgs<Weight, Out> args{x.data(), ldx,      c.rows, weight,         c.n,
                             c.k,      y.data(), ldy,    workspace.get()};
  if constexpr (std::is_same_v<Out, Bf16>) {
    swiglu ? gemm_swiglu(nullptr, args, plan) : gemm(nullptr, args, plan);
  } else {
    gemm(nullptr, args, plan);
  }
  REQUIRE(workspace.clean());
  const std::vector<Out> all = y.read();
  std::vector<Out> rows;
  bool untouched = true;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const auto row = all.begin() + r * ldy;
    rows.insert(rows.end(), row, row + columns);
    const auto* gap = reinterpret_cast<const unsigned char*>(all.data() + r * ldy + columns);
    untouched = untouched && std::all_of(gap, gap + kGap * static_cast<std::int64_t>(sizeof(Out)),
                                         [](unsigned char b) { return b == 0xff; });
  }
  REQUIRE(untouched);
  return as_floats(rows);
}

template <class Out = float>
Floats run_gemm(const GemmCase& c, const GemmPlan& plan, bool swiglu = false) {
  const Buffer<Bf16> w(c.w);
  return run_gemm<Out>(c, Bf16Weight{w.data()}, plan, swiglu);
}

/// docs/order.md, with the exact sum of 16 products that the host body of mma has.
inline Floats gemm_in_order(const GemmCase& c) {
  const std::int64_t depth = gemm_segment_depth(c.n, c.k);
  Floats y;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t column = 0; column < c.n; ++column) {
      float total = 0.0F;
      for (std::int64_t begin = 0; begin < c.k; begin += depth) {
        float part = 0.0F;
        for (std::int64_t k = begin; k < std::min(begin + depth, c.k); k += 16) {
          double sum = 0;
          for (std::int64_t i = k; i < std::min(k + 16, c.k); ++i) {
            sum += static_cast<double>(to_float(c.x[at(r * c.k + i)])) *
                   static_cast<double>(to_float(c.w[at(column * c.k + i)]));
          }
          part = static_cast<float>(static_cast<double>(part) + sum);
        }
        total = begin == 0 ? part : total + part;
      }
      y.push_back(total);
    }
  }
  return y;
}

}  // namespace cairn::kernels::cuda::testing
