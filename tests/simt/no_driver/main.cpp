// SPDX-License-Identifier: Apache-2.0
// The real launchers on a machine without a driver.  Exits with 77 where there is a GPU.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "base/check.hpp"
#include "kernels/cuda/pointwise.hpp"

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return 77;
  cairn::kernels::cuda::SwigluArgs<float> args;
  args.n = 1024;
  cairn::kernels::cuda::swiglu(nullptr, args);  // no rows: nothing is launched
  args.rows = 1;
  try {
    cairn::kernels::cuda::swiglu(nullptr, args);
  } catch (const cairn::DeviceError& error) {
    std::printf("%s\n", error.what());
    return std::string(error.what()).rfind("launch of swiglu: ", 0) == 0 ? 0 : 1;
  }
  std::printf("the launch succeeded\n");
  return 1;
}
