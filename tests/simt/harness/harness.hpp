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

/// Whose memory it plays.
enum class Place : std::uint8_t { device, pinned };

/// Memory, 256-byte aligned as cudaMalloc's. What no one has written is 0xff: NaN, or a negative
/// index. Exactly sized, so that AddressSanitizer sees the first byte outside; without it guard
/// bytes on both sides are compared after every launch and copy. Thread-safe.
std::byte* allocate(std::size_t bytes, Place place);
void release(std::byte* memory) noexcept;
/// Whether all of these bytes lie in one allocation of that kind.
bool allocated(const std::byte* begin, std::size_t bytes, Place place);

/// Launches since the program started.
std::int64_t launches();

}  // namespace cairn::simt
