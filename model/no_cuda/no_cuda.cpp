// SPDX-License-Identifier: Apache-2.0
// The CUDA backend of builds that have none.
#include "base/check.hpp"
#include "model/net/backend.hpp"

namespace cairn::model {
namespace {

constexpr const char* kReason =
    "this build has no CUDA backend (nvcc was not found when it was built, or CAIRN_CUDA was OFF)";

}  // namespace

std::vector<CudaDevice> cuda_devices() { throw DeviceError(kReason); }

std::unique_ptr<Backend> make_cuda_backend(const std::shared_ptr<const Weights>&,
                                           const CudaOptions&) {
  throw DeviceError(kReason);
}

}  // namespace cairn::model
