// SPDX-License-Identifier: Apache-2.0
// The suite lies in tests/support for every backend's tests; this program compiles it for the
// CPU's.
#include "tests/support/exactness.cpp"
