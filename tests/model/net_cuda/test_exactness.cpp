// SPDX-License-Identifier: Apache-2.0
// The exactness suite on the CUDA backend, whose kernels the SIMT harness runs.
#include "model/net/weights.hpp"
#include "tests/model/net_cuda/device_memory.hpp"
#include "tests/model/net_cuda/small_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness.hpp"

using namespace cairn;
using namespace cairn::model;

namespace {

/// Backends of one model that follow one another in one arena.
struct Backends {
  std::shared_ptr<const Weights> weights;
  std::shared_ptr<testing::ArenaMemory> memory = std::make_shared<testing::ArenaMemory>(4 << 20);
  CudaOptions options{};

  testing::MakeBackend make() const {
    return [this](int) {
      auto backend = make_cuda_backend(weights, options);
      memory->serve(*backend);
      return backend;
    };
  }
};

}  // namespace

TEST_CASE("a model gives the same bits however a device runs it") {
  Backends backends{random_weights(testing::small_shape(), 7)};
  testing::ExactnessOptions options;
  options.short_tokens = 17;
  options.long_tokens = 41;
  options.long_positions = 1;
  options.splits = 1;
  const auto report =
      testing::check_exactness(backends.make(), options, backends.memory->interface());
  INFO(report.checks << " checks");
  for (const std::string& failure : report.failures) UNSCOPED_INFO(failure);
  CHECK(report.failures.empty());
  CHECK(report.checks > 50);
}

// One of a key can vanish: attention's weights are rounded to bf16.
TEST_CASE("the suite notices one unit in the last place of a state restored on a device") {
  Backends backends{random_weights(testing::small_shape(), 11)};
  testing::ExactnessOptions options;
  options.short_tokens = 18;
  options.long_tokens = 2;
  CHECK(testing::detects_one_ulp(backends.make(), false, options, backends.memory->interface()));
}
