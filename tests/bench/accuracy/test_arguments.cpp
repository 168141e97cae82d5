// SPDX-License-Identifier: Apache-2.0
#include "bench/arguments.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;

TEST_CASE("an option of a benchmark takes a whole number within its range, or is named") {
  CHECK(bench::whole_number("--threads", "1", 1, 64) == 1);
  CHECK(bench::whole_number("--threads", "64", 1, 64) == 64);
  for (const char* none : {"", "0", "65", "-1", "two", "2x", " 2", "2.5", "99999999999"}) {
    CHECK_THROWS_WITH(bench::whole_number("--threads", none, 1, 64),
                      "--threads: expected 1 to 64, not '" + std::string(none) + "'");
  }
}
