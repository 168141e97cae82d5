// SPDX-License-Identifier: Apache-2.0
// The kernel tests of tests/simt, on the device.
#include "tests/gpu_check/device/runner.hpp"
#include "tests/gpu_check/parts.hpp"

namespace cairn::gpu_check {

void run_tests(Context& context, const std::string& subject) {
  using testing::TestResult;
  // The harness runs all of them elsewhere: a dry run shows that they run here, too.
  const double enough = context.seconds_left() - (kDryRun ? 0.1 : 1e9);
  int passed = 0, skipped = 0, left_out = 0;
  for (const testing::Test& test : testing::all_tests()) {
    if (test.subject != subject) continue;
    if (context.seconds_left() < enough) {
      ++left_out;
      continue;
    }
    const TestResult result = testing::run_test(test);
    passed += result.outcome == TestResult::Outcome::passed ? 1 : 0;
    skipped += result.outcome == TestResult::Outcome::skipped ? 1 : 0;
    if (result.outcome == TestResult::Outcome::failed) {
      context.report.failed(test.name, result.message);
    }
  }
  if (passed == 0) {
    context.report.failed(subject, "no test passed");
  } else {
    context.report.passed(subject, std::to_string(passed) + " passed, " + std::to_string(skipped) +
                                       " need the harness, " + std::to_string(left_out) +
                                       " left out");
  }
}

}  // namespace cairn::gpu_check
