// SPDX-License-Identifier: Apache-2.0
// Faults on purpose, for tests: CAIRN_FAILPOINTS="planner.solve=sleep:5000;host.store=fail".
// Builds with CAIRN_FAILPOINTS=OFF answer "none" everywhere and read no environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

/// What a place in the code is asked to do. `sleep_ms` > 0: hold still that long; `fail`: act as
/// failed ("fail:4096" with a number that the place gives a meaning to, such as bytes done before).
struct Fault {
  bool fail = false;
  std::int64_t after = 0;
  bool die = false;  // throw InvariantError
  std::int64_t sleep_ms = 0;
};

/// The fault set for `name`; thread-safe. Each reading of a counted fault ("fail*3") uses one up.
Fault failpoint(std::string_view name);

/// Sleeps, throws or returns true ("act as failed") as the table says.
bool hit_failpoint(std::string_view name);

/// Replaces the table (tests); same syntax as the environment variable. Empty clears it.
void set_failpoints(std::string_view table);

}  // namespace cairn
