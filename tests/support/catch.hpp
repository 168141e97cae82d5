// SPDX-License-Identifier: Apache-2.0
// The one place that knows which Catch2 the system ships, or that a device's machine has none.
#pragma once
#if defined(CAIRN_DEVICE_TESTS)
#include "tests/gpu_check/device/runner.hpp"
#else
#include <catch2/catch.hpp>
#endif
