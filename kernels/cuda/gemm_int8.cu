// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cuda/gemm_launch.cuh"

namespace cairn::kernels::cuda {
namespace {

Bf16 scale_of(const Bf16* values, std::int64_t count) {
  float largest = 0.0F;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::fmax(largest, std::fabs(to_float(values[i])));
  }
  return to_bf16(largest / 127.0F);
}

std::int8_t quantized(Bf16 value, float scale) {
  if (scale == 0.0F) return 0;
  const float q = std::nearbyint(to_float(value) / scale);
  return static_cast<std::int8_t>(std::fmin(127.0F, std::fmax(-127.0F, q)));
}

}  // namespace

void quantize_int8(const Bf16* w, std::int64_t n, std::int64_t k, std::int32_t group,
                   std::int8_t* q, Bf16* scales) {
  check(group > 0 && group % 32 == 0, "quantize_int8: the group is a multiple of 32");
  check(k % 16 == 0, "quantize_int8: k is a multiple of 16");
  for (std::int64_t row = 0; row < n; ++row) {
    const Bf16* from = w + row * k;
    std::int8_t* to = q + row * k;
    for (std::int64_t begin = 0; begin < k; begin += group) {
      const std::int64_t end = std::min<std::int64_t>(k, begin + group);
      const Bf16 scale = scale_of(from + begin, end - begin);
      scales[begin / group * n + row] = scale;
      for (std::int64_t j = begin; j < end; ++j) {
        to[j / 16 * 16 + int8_slot(j % 16)] = quantized(from[j], to_float(scale));
      }
    }
  }
}

template void gemm(Stream, const GemmArgs<Int8Weight, float>&, const GemmPlan&);
template void gemm(Stream, const GemmArgs<Int8Weight, Bf16>&, const GemmPlan&);
template void gemm_swiglu(Stream, const GemmArgs<Int8Weight, Bf16>&, const GemmPlan&);

}  // namespace cairn::kernels::cuda
