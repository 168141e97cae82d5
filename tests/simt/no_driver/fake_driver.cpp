// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 with what the CUDA runtime asks before it refuses a driver: CAIRN_FAKE_DRIVER is
// the version that it says, CAIRN_FAKE_INIT what cuInit returns.
#include <cstdlib>

namespace {

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

extern "C" int cuInit(unsigned /*flags*/) { return number_in("CAIRN_FAKE_INIT"); }

extern "C" int cuDriverGetVersion(int* version) {
  *version = number_in("CAIRN_FAKE_DRIVER");
  return 0;
}
