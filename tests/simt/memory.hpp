// SPDX-License-Identifier: Apache-2.0
// Where the kernel tests run: in the harness, or on a device that tests/gpu_check has found.
#pragma once

#if defined(CAIRN_DEVICE_TESTS)
#include "tests/gpu_check/device/buffer.hpp"
#else
#include "tests/simt/harness/buffer.hpp"
#include "tests/simt/harness/counters.hpp"
#include "tests/simt/harness/harness.hpp"
#endif

namespace cairn::simt {
#if defined(CAIRN_DEVICE_TESTS)
inline constexpr bool kOnDevice = true;
using testing::device::Blocks;
using testing::device::Buffer;
using testing::device::Counters;
using testing::device::Counting;
using testing::device::launches;
#else
inline constexpr bool kOnDevice = false;
#endif
}  // namespace cairn::simt
