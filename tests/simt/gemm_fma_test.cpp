// SPDX-License-Identifier: Apache-2.0
// The product of the GEMM where no tensor core multiplies bf16.
#include "kernels/cuda/gemm_tile.cuh"
#include "tests/simt/gemm_case.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

/// 16 x 16 by 16 x 8 in the fragments of one warp.
struct MultiplyByFma {
  struct Args {
    const std::uint32_t* a;  // [32, 4]
    const std::uint32_t* b;  // [32, 2]
    float* d;                // [32, 4]
  };
  static constexpr const char* kName = "multiply_by_fma";
  static constexpr int kThreads = 32;
  static __device__ void run(const Args& args) {
    const unsigned t = threadIdx.x;
    float* const place = args.d + t * 4;
    float d[4] = {place[0], place[1], place[2], place[3]};
    fma_bf16_16x8x16(d, {args.a[t * 4], args.a[t * 4 + 1], args.a[t * 4 + 2], args.a[t * 4 + 3]},
                     {args.b[t * 2], args.b[t * 2 + 1]});
    for (int i = 0; i < 4; ++i) place[i] = d[i];
  }
};

std::uint32_t pair_of(const Bf16s& m, std::size_t i, std::size_t stride = 1) {
  return static_cast<std::uint32_t>(m[i + stride].bits) << 16 | m[i].bits;
}

}  // namespace

TEST_CASE("without tensor cores a product adds one fma a time, k ascending") {
  Random random(77);
  const Bf16s a = to_bf16s(random.floats(16 * 16)), b = to_bf16s(random.floats(16 * 8));
  const Floats start = random.floats(16 * 8);
  std::vector<std::uint32_t> a_words, b_words;
  Floats d, want;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t g = lane / 4, t = lane % 4 * 2;
    for (const std::size_t i :
         {g * 16 + t, (g + 8) * 16 + t, g * 16 + t + 8, (g + 8) * 16 + t + 8}) {
      a_words.push_back(pair_of(a, i));
    }
    for (const std::size_t k : {t, t + 8}) b_words.push_back(pair_of(b, k * 8 + g, 8));
    for (const std::size_t row : {g, g + 8}) {
      for (const std::size_t column : {t, t + 1}) {
        float sum = start[row * 8 + column];
        d.push_back(sum);
        for (std::size_t k = 0; k < 16; ++k) {
          sum = std::fma(to_float(a[row * 16 + k]), to_float(b[k * 8 + column]), sum);
        }
        want.push_back(sum);
      }
    }
  }
  const Buffer<std::uint32_t> device_a(a_words), device_b(b_words);
  Buffer<float> device_d(d);
  launch<MultiplyByFma>({1}, nullptr, {device_a.data(), device_b.data(), device_d.data()});
  REQUIRE(same_bits(device_d.read(), want));
}

}  // namespace cairn::kernels::cuda::testing
