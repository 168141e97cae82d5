// SPDX-License-Identifier: Apache-2.0
// Invariants. A broken one is our mistake: it throws, one actor dies, the process lives.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cairn {

/// Thrown by check(); ends the actor in which it happens.
class InvariantError : public std::logic_error {
  using std::logic_error::logic_error;
};

/// A model directory or file that cannot be used: names file, field and expectation. Load time
/// only.
class LoadError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The device failed (out of memory, lost, unsupported).
class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The device answers nothing any more, for the rest of this process.
class DeviceLost : public DeviceError {
  using DeviceError::DeviceError;
};

[[noreturn]] void throw_invariant(std::string_view message, const char* file, int line);

/// Always on. Not for user input.
inline void check(bool condition, std::string_view message, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!condition) throw_invariant(message, file, line);
}

}  // namespace cairn
