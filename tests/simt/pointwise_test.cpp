// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/pointwise.hpp"

#include "base/check.hpp"
#include "kernels/cuda/lane.cuh"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

template <class Out>
void check_swiglu(std::int64_t rows, std::int64_t n) {
  Random random(static_cast<std::uint32_t>(rows * 10000 + n));
  const std::int64_t ld = 2 * n + 8;  // gate and up side by side, and something behind them
  const Floats both = random.floats(rows * ld, -12.0F, 12.0F);
  Floats want(at(rows * n));
  cpu().swiglu(both.data(), ld, both.data() + n, ld, rows, n, want.data(), n);
  const Buffer<float> device(both);
  Buffer<Out> y(want.size());
  swiglu<Out>(nullptr, {device.data(), ld, device.data() + n, ld, rows, n, y.data()});
  REQUIRE(same_bits(as_floats(y.read()), rounded<Out>(want)));
}

template <class Out>
void check_sigmoid_gate(std::int64_t tokens, std::int32_t heads, std::int32_t head_dim) {
  Random random(static_cast<std::uint32_t>(tokens * 100 + heads));
  const std::int64_t n = static_cast<std::int64_t>(heads) * head_dim;
  const std::int64_t ld = 2 * n + 4;  // query and gate of each head side by side
  const Floats x = random.floats(tokens * n, -3.0F, 3.0F);
  const Floats projected = random.floats(tokens * ld, -20.0F, 20.0F);
  Floats want = x;
  for (std::int64_t t = 0; t < tokens; ++t) {
    cpu().sigmoid_gate(want.data() + t * n, projected.data() + t * ld + head_dim, 2 * head_dim,
                       heads, head_dim);
  }
  const Buffer<float> device_x(x);
  const Buffer<float> device_gate(projected);
  Buffer<Out> y(want.size());
  sigmoid_gate<Out>(nullptr, {device_x.data(), device_gate.data() + head_dim, ld, 2 * head_dim,
                              tokens, heads, head_dim, y.data()});
  REQUIRE(same_bits(as_floats(y.read()), rounded<Out>(want)));
}

}  // namespace

TEST_CASE("exp, log and sigmoid of the device source have the bits of the CPU kernels") {
  Random random(50);
  Floats x = random.floats(3000, -110.0F, 95.0F);
  for (const float special :
       {0.0F, -0.0F, 1.0F, -1.0F, 88.8F, 89.5F, -103.9F, -105.0F, 1e-40F,
        kernels::testing::kInfinity, -kernels::testing::kInfinity, kernels::testing::kNan}) {
    x.push_back(special);
  }
  const auto n = static_cast<std::int64_t>(x.size());
  Floats want(x.size());
  const auto check_function = [&](float (*ours)(float)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float got = ours(x[i]);
      INFO(x[i]);
      REQUIRE(same_bits(&got, &want[i], 1));
    }
  };
  cpu().exp(x.data(), n, want.data());
  check_function([](float v) { return cuda::exp_f32(v); });
  cpu().log(x.data(), n, want.data());
  check_function([](float v) { return cuda::log_f32(v); });
  cpu().sigmoid(x.data(), n, want.data());
  check_function([](float v) { return cuda::sigmoid_f32(v); });
}

TEST_CASE("softplus of the device source has the bits of the gates kernel") {
  Random random(51);
  const Floats a = random.floats(16 * 100, -40.0F, 40.0F);
  const Floats zero(16, 0.0F), b(a.size(), 0.0F);
  Floats decay(a.size()), beta(a.size());
  cpu().gates(a.data(), b.data(), 16, 100, 16, zero.data(), zero.data(), decay.data(), beta.data());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float got = cuda::exp_f32(-1.0F * softplus_f32(a[i]));
    REQUIRE(same_bits(&got, &decay[i], 1));
  }
}

TEST_CASE("swiglu has the bits of the CPU kernel") {
  for (const std::int64_t n : {4, 96, 1020, 1024, 1028, 3584}) {
    check_swiglu<float>(3, n);
    check_swiglu<Bf16>(2, n);
  }
  check_swiglu<float>(0, 96);
}

TEST_CASE("sigmoid_gate has the bits of the CPU kernel") {
  for (const std::int32_t heads : {1, 4, 5, 8}) {
    check_sigmoid_gate<float>(2, heads, 256);
    check_sigmoid_gate<Bf16>(3, heads, 32);
  }
  check_sigmoid_gate<float>(0, 8, 256);
}

TEST_CASE("pointwise kernels refuse what their vectors do not divide") {
  SwigluArgs<float> odd;
  odd.n = 6;
  REQUIRE_THROWS_AS(swiglu(nullptr, odd), InvariantError);
  odd.n = 8;
  odd.ld_up = 6;
  REQUIRE_THROWS_AS(swiglu(nullptr, odd), InvariantError);
  SigmoidGateArgs<float> gate;
  gate.head_dim = 30;
  REQUIRE_THROWS_AS(sigmoid_gate(nullptr, gate), InvariantError);
}

TEST_CASE("pointwise kernels move the least bytes in whole sectors") {
  constexpr std::int64_t rows = 2, n = 3584;
  const Buffer<float> gate(Floats(rows * n, 1.0F)), up(Floats(rows * n, 1.0F));
  Buffer<Bf16> y(rows * n);
  Counting counting;
  swiglu<Bf16>(nullptr, {gate.data(), n, up.data(), n, rows, n, y.data()});
  require_efficient(counting.of("swiglu"), rows * n * (4 + 4 + 2));
  sigmoid_gate<Bf16>(nullptr, {gate.data(), up.data(), n, 256, rows, n / 256, 256, y.data()});
  require_efficient(counting.of("sigmoid_gate"), rows * n * (4 + 4 + 2));
}

TEST_CASE("a row of any length starts enough blocks, and no more") {
  SwigluArgs<float> args;
  args.rows = 5;
  for (const auto& [n, blocks] : {std::pair<std::int64_t, std::int32_t>{4, 1},
                                  {1024, 1},
                                  {1028, 2},
                                  {17408, 17},
                                  {17412, 18}}) {
    args.n = n;
    REQUIRE(swiglu_grid(args) == Grid{5, blocks});
  }
}

}  // namespace cairn::kernels::cuda::testing
