// SPDX-License-Identifier: Apache-2.0
// What the CUDA runtime asks a driver before it refuses an old one: a libcuda.so.1 of CUDA 12.4.
extern "C" int cuInit(unsigned /*flags*/) { return 0; }

extern "C" int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
