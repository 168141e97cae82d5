// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/pointwise.hpp"

#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/norm.hpp"
#include "tests/gpu_check/arrays.hpp"
#include "tests/gpu_check/bounds.hpp"
#include "tests/gpu_check/shapes.hpp"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT

void measure(KernelClock& clock, std::int64_t rows) {
  const model::ModelConfig& c = measured_model();
  const std::int64_t hidden = c.hidden_size;
  const std::string what = ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
  const int launches = rows == 1 ? 20 : 4;
  const auto elements = static_cast<double>(rows * hidden);

  const Array<float> x(clock.stream(), rows * hidden), update(clock.stream(), rows * hidden);
  const Array<float> w(clock.stream(), hidden);
  const Space<Bf16> y(rows * hidden);
  AddRmsNormArgs<Bf16> norm;
  norm.x = x.get();
  norm.update = update.get();
  norm.w = w.get();
  norm.eps = 1e-6F;
  norm.rows = rows;
  norm.width = hidden;
  norm.y = y.get();
  clock.measure("add_rms_norm" + what, {elements * 14, 0, 0}, launches,
                [&](int) { add_rms_norm(clock.stream().get(), norm); });

  constexpr std::int32_t vocab = 1024;  // rows that are drawn from
  const Array<Bf16> table(clock.stream(), vocab * hidden);
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < rows; ++r) {
    tokens.push_back(static_cast<std::int32_t>(r * 389 % vocab));
  }
  const Array<std::int32_t> device_tokens(clock.stream(), tokens);
  const Space<float> rows_out(rows * hidden);
  clock.measure("embedding" + what, {elements * 6, 0, 0}, launches, [&](int) {
    embedding(clock.stream().get(),
              {device_tokens.get(), table.get(), rows, hidden, rows_out.get()});
  });

  const std::int64_t inner = c.intermediate_size;
  const Array<float> both(clock.stream(), rows * 2 * inner);
  const Space<Bf16> gated(rows * inner);
  clock.measure("swiglu" + what, {static_cast<double>(rows * inner) * 10, 0, 0}, launches,
                [&](int) {
                  swiglu<Bf16>(clock.stream().get(), {both.get(), 2 * inner, both.get() + inner,
                                                      2 * inner, rows, inner, gated.get()});
                });
}

}  // namespace

void measure_pointwise(KernelClock& clock) {
  measure(clock, 1);
  measure(clock, kPrefillRows);
}

}  // namespace cairn::gpu_check
