// SPDX-License-Identifier: Apache-2.0
// CUDA's status codes as errors of the engine. For nvcc only.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/check.hpp"
#include "kernels/cuda/device_errors.hpp"

namespace cairn::kernels::cuda {

/// Whether every later call of this process fails, too: what CUDA says of the context's corruption,
/// and devices that have stopped to answer.
inline bool ends_process(cudaError_t status) {
  switch (status) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsClientTerminated:
    case cudaErrorMpsRpcFailure:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
#if CUDART_VERSION >= 13000  // earlier toolkits do not know them
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
      return true;
    default:
      return false;
  }
}

/// Throws DeviceLost or DeviceError: "<during>: <what CUDA says>".
[[noreturn]] inline void throw_device_error(cudaError_t status, const std::string& during) {
  const char* reason = cudaGetErrorString(status);
  if (ends_process(status)) throw DeviceLost(text_of_lost_device(during, reason));
  cudaGetLastError();  // what was refused is told once
  throw DeviceError(during + ": " + reason);
}

inline void check_cuda(cudaError_t status, const char* during) {
  if (status != cudaSuccess) throw_device_error(status, during);
}

}  // namespace cairn::kernels::cuda
