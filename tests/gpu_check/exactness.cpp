// SPDX-License-Identifier: Apache-2.0
#include "tests/support/exactness.hpp"

#include "base/check.hpp"
#include "tests/gpu_check/model.hpp"
#include "tests/gpu_check/parts.hpp"

namespace cairn::gpu_check {
namespace {

testing::ExactnessOptions suite_options() {
  testing::ExactnessOptions options;
  options.splits = 2;
  options.long_positions = 2;
  if (kDryRun) {
    options.short_tokens = 5;
    options.long_tokens = 17;
    options.long_positions = options.splits = 1;
  }
  return options;
}

void run_suite(Context& context, const model::CudaOptions& suite, const std::string& name) {
  const auto weights = served_weights();
  const auto memory = std::make_shared<testing::ArenaMemory>(served_sizes().arena);
  const testing::MakeBackend make = [&](int) {
    auto backend = model::make_cuda_backend(weights, suite);
    memory->serve(*backend);
    return backend;
  };
  const auto report = testing::check_exactness(make, suite_options(), memory->interface());
  for (const std::string& failure : report.failures) context.report.failed(name, failure);
  if (report.failures.empty()) {
    context.report.passed(name, std::to_string(report.checks) + " comparisons by bits");
  }
}

model::CudaOptions options_with(model::CudaWeights weights, model::CudaGemm gemm) {
  model::CudaOptions options = served_options();
  options.max_slices = kDryRun ? 4 : 8;
  options.max_step_tokens = kDryRun ? 64 : 2048;
  options.weights = weights;
  options.gemm = gemm;
  return options;
}

}  // namespace

void check_exactness(Context& context) {
  run_suite(context, options_with(model::CudaWeights::bf16, model::CudaGemm::exact), "bf16");
}

void check_exactness_int8(Context& context) {
  run_suite(context, options_with(model::CudaWeights::int8, model::CudaGemm::exact), "int8");
}

void check_exactness_cublaslt(Context& context) {
  try {
    run_suite(context, options_with(model::CudaWeights::bf16, model::CudaGemm::cublaslt),
              "cuBLASLt");
  } catch (const DeviceError& error) {
    context.report.skipped("cuBLASLt", error.what());
  }
}

}  // namespace cairn::gpu_check
