// SPDX-License-Identifier: Apache-2.0
// Runs kernels on the CPU: what a test sees of the harness besides launch().
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace cairn::simt {

/// A mistake of a kernel or of its launch. The kernel's threads are abandoned where they stood.
class Fault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bytes that no kernel may change: compared with 0xa5 after every launch until unguard(begin). Not
/// during a launch of another OS thread.
void guard(const std::byte* begin, std::size_t bytes);
void unguard(const std::byte* begin);

/// Launches since the program started.
std::int64_t launches();

}  // namespace cairn::simt
