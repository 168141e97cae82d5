// SPDX-License-Identifier: Apache-2.0
// The real launchers and the real device layer without a driver: errors in one line. Exits with 77
// where there is one. With the argument "find": prints what find_devices says.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <functional>
#include <string>

#include "base/check.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/pointwise.hpp"

namespace {

using namespace cairn::kernels::cuda;  // NOLINT: all of it is about them

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const cairn::DeviceLost& error) {
    return std::string("lost: ") + error.what();
  } catch (const cairn::DeviceError& error) {
    return error.what();
  }
  return "none";
}

/// Whether the call fails with that text, or with one that begins with it.
bool fails(const std::function<void()>& call, const std::string& text, bool begin = false) {
  const std::string error = error_of(call);
  std::printf("%s\n", error.c_str());
  return error.find('\n') == std::string::npos &&
         (begin ? error.rfind(text, 0) == 0 : error == text);
}

bool fail_without_driver() {
  const std::string no_driver =
      "no CUDA device: there is no NVIDIA driver (libcuda.so.1 is not found); this build needs one "
      "for CUDA " +
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) +
      " or later";
  SwigluArgs<float> args;
  args.n = 1024;
  swiglu(nullptr, args);  // no rows: nothing is launched
  args.rows = 1;
  return fails([&] { swiglu(nullptr, args); }, "launch of swiglu: ", true) &&
         fails([] { find_devices(); }, no_driver) && fails([] { describe_device(0); }, no_driver) &&
         fails([] { DeviceBuffer(0, 1, "the weights"); }, "allocating memory: ", true) &&
         fails([] { WorkStream stream(0); }, "making a stream: ", true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "find") {
    std::printf("%s\n", error_of([] { find_devices(); }).c_str());
    return 0;
  }
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0) return 77;
  return fail_without_driver() ? 0 : 1;
}
