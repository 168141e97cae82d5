// SPDX-License-Identifier: Apache-2.0
// Runs the kernel tests where there is no Catch2, on a machine with nothing but a device: the names
// of Catch2 that they use (tests/support/catch.hpp) and a list of what became of each test.
#pragma once

#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing {

class AssertionFailed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Thrown by what only the harness has: the test is skipped from there on.
class NeedsHarness : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Test {
  std::string name;
  std::string subject;  // of its file: "gemm" for .../gemm_test.cpp
  void (*body)() = nullptr;
};
/// Those linked into the program, by subject.
const std::vector<Test>& all_tests();

struct AddTest {
  AddTest(const char* name, const char* file, void (*body)());
};

struct TestResult {
  enum class Outcome { passed, failed, skipped };
  Outcome outcome = Outcome::passed;
  std::string message;  // of a failure: place, expression, what INFO said
};
TestResult run_test(const Test& test);

/// Fails the running test from where nothing can be thrown.
void fail_test(const std::string& message);
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

/// What INFO says, should its scope be left by an exception.
class ScopedInfo {
 public:
  explicit ScopedInfo(std::string text)
      : text_(std::move(text)), exceptions_(std::uncaught_exceptions()) {}
  ~ScopedInfo();
  ScopedInfo(const ScopedInfo&) = delete;
  ScopedInfo& operator=(const ScopedInfo&) = delete;

 private:
  std::string text_;
  int exceptions_;
};

}  // namespace cairn::testing

#define CAIRN_JOIN_(a, b) a##b
#define CAIRN_JOIN(a, b) CAIRN_JOIN_(a, b)

#define CAIRN_TEST(function, name)                                                                \
  static void function();                                                                         \
  static const ::cairn::testing::AddTest CAIRN_JOIN(added_, function)(name, __FILE__, &function); \
  static void function()
#define TEST_CASE(name) CAIRN_TEST(CAIRN_JOIN(test_on_line_, __LINE__), name)

#define REQUIRE(...)                                                        \
  do {                                                                      \
    if (!static_cast<bool>(__VA_ARGS__))                                    \
      ::cairn::testing::assertion_failed(#__VA_ARGS__, __FILE__, __LINE__); \
  } while (false)
#define REQUIRE_FALSE(...) REQUIRE(!static_cast<bool>(__VA_ARGS__))
#define REQUIRE_NOTHROW(...) static_cast<void>(__VA_ARGS__)
#define REQUIRE_THROWS_AS(expression, type)                                                 \
  do {                                                                                      \
    bool thrown = false;                                                                    \
    try {                                                                                   \
      static_cast<void>(expression);                                                        \
    } catch (const type&) {                                                                 \
      thrown = true;                                                                        \
    }                                                                                       \
    if (!thrown)                                                                            \
      ::cairn::testing::assertion_failed(#expression " throws " #type, __FILE__, __LINE__); \
  } while (false)
#define INFO(text)                                             \
  const ::cairn::testing::ScopedInfo CAIRN_JOIN(info_on_line_, \
                                                __LINE__)((std::ostringstream() << text).str())
