// SPDX-License-Identifier: Apache-2.0
// The real launchers and the real device layer without a driver, or (argument "old") with that of
// old_driver.cpp: errors in one line. Exits with 77 where there is another driver.
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
  } catch (const cairn::DeviceLost&) {
    return "lost";
  } catch (const cairn::DeviceError& error) {
    return error.what();
  }
  return "none";
}

/// Whether the call fails with that text, or with one that begins with "<begin>: ".
bool fails(const std::function<void()>& call, const std::string& text, bool begin = false) {
  const std::string error = error_of(call);
  std::printf("%s\n", error.c_str());
  return error.find('\n') == std::string::npos &&
         (begin ? error.rfind(text + ": ", 0) == 0 : error == text);
}

const std::string kNeeded =
    std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);

bool without_driver() {
  const std::string no_driver =
      "no CUDA device: there is no NVIDIA driver (libcuda.so.1 is not found); this build needs one "
      "for CUDA " +
      kNeeded + " or later";
  SwigluArgs<float> args;
  args.n = 1024;
  swiglu(nullptr, args);  // no rows: nothing is launched
  args.rows = 1;
  return fails([&] { swiglu(nullptr, args); }, "launch of swiglu", true) &&
         fails([] { find_devices(); }, no_driver) && fails([] { describe_device(0); }, no_driver) &&
         fails([] { DeviceBuffer(0, 1, "the weights"); }, "allocating memory", true) &&
         fails([] { WorkStream stream(0); }, "making a stream", true);
}

bool with_old_driver() {
  return fails([] { find_devices(); },
               "no CUDA device: the NVIDIA driver is for CUDA 12.4, and "
               "this build needs " +
                   kNeeded + " or later");
}

}  // namespace

int main(int argc, char** argv) {
  const bool old = argc == 2 && std::string(argv[1]) == "old";
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver != (old ? 12040 : 0)) return 77;
  return (old ? with_old_driver() : without_driver()) ? 0 : 1;
}
