// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/device/runner.hpp"

#include <algorithm>
#include <string_view>

namespace cairn::testing {
namespace {

std::vector<Test>& registered() {
  static std::vector<Test> tests;
  return tests;
}

std::string notes;     // what scopes said that the current exception left
std::string failures;  // of the running test, from where nothing could be thrown

std::string subject_of(std::string_view file) {
  file.remove_prefix(file.rfind('/') + 1);
  return std::string(file.substr(0, file.rfind("_test.cpp")));
}

}  // namespace

AddTest::AddTest(const char* name, const char* file, void (*body)()) {
  Test test{name, subject_of(file), body};
  std::vector<Test>& tests = registered();
  const auto after = [](const std::string& subject, const Test& t) { return subject < t.subject; };
  tests.insert(std::upper_bound(tests.begin(), tests.end(), test.subject, after), test);
}

const std::vector<Test>& all_tests() { return registered(); }

TestResult run_test(const Test& test) {
  notes.clear();
  failures.clear();
  TestResult result;
  try {
    test.body();
  } catch (const NeedsHarness& left_out) {
    result = {TestResult::Outcome::skipped, left_out.what()};
  } catch (const std::exception& error) {
    result = {TestResult::Outcome::failed, error.what() + notes};
  }
  if (!failures.empty()) result = {TestResult::Outcome::failed, result.message + failures};
  return result;
}

void fail_test(const std::string& message) { failures += "; " + message; }

void assertion_failed(const char* expression, const char* file, int line) {
  throw AssertionFailed(subject_of(file) + ":" + std::to_string(line) + ": " + expression);
}

ScopedInfo::~ScopedInfo() {
  if (std::uncaught_exceptions() != exceptions_) notes += "; " + text_;
}

}  // namespace cairn::testing
