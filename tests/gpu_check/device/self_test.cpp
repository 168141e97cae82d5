// SPDX-License-Identifier: Apache-2.0
// The substitute of Catch2 and the device's buffers, judged by tests that must fail.
#include <cstdio>
#include <stdexcept>

#include "base/check.hpp"
#include "tests/gpu_check/device/buffer.hpp"
#include "tests/support/catch.hpp"

namespace {

using cairn::testing::TestResult;
using cairn::testing::device::Buffer;

/// Beside the buffer, by way of its pointer.
void write_beside(Buffer<int>& buffer) {
  cairn::kernels::cuda::WorkStream stream(0);
  stream.zero(reinterpret_cast<std::byte*>(buffer.data() + buffer.size()), 4);
  stream.finish();
}

}  // namespace

TEST_CASE("passed ") {
  INFO("not shown");
  REQUIRE(1 + 1 == 2);
  REQUIRE_FALSE(1 == 2);
  REQUIRE_THROWS_AS(cairn::check(false, "x"), cairn::InvariantError);
  const std::vector<int> values{1, 2, 3};
  const Buffer<int> buffer(values);
  REQUIRE(buffer.read() == values);
  REQUIRE(Buffer<int>(2).read() == std::vector<int>{-1, -1});
}
TEST_CASE("failed: 1 == 2; round 3") {
  INFO("round " << 3);
  REQUIRE(1 == 2);
}
TEST_CASE("failed: cairn::check(true, \"x\") throws cairn::InvariantError") {
  REQUIRE_THROWS_AS(cairn::check(true, "x"), cairn::InvariantError);
}
TEST_CASE("failed unexpected; here") {
  INFO("here");
  throw std::runtime_error("unexpected");
}
TEST_CASE("failed ; a kernel wrote beside its buffer") {
  Buffer<int> buffer(7);
  write_beside(buffer);
}
TEST_CASE("skipped counts what a kernel moves") {
  const cairn::testing::device::Counting counting;
  REQUIRE(false);
}
TEST_CASE("skipped counts launches") { REQUIRE(cairn::testing::device::launches() == 0); }

int main() {
  const char* const outcomes[] = {"passed", "failed", "skipped"};
  int wrong = 0;
  for (const cairn::testing::Test& test : cairn::testing::all_tests()) {
    const TestResult result = cairn::testing::run_test(test);
    const std::string outcome = outcomes[static_cast<int>(result.outcome)];
    if (test.name.starts_with(outcome) &&
        (outcome + " " + result.message).ends_with(test.name.substr(outcome.size()))) {
      continue;
    }
    const std::string got = outcome + " " + result.message;
    std::printf("%s\n  is %s\n", test.name.c_str(), got.c_str());
    ++wrong;
  }
  const std::size_t count = cairn::testing::all_tests().size();
  std::printf("%zu tests, %d wrong\n", count, wrong);
  return wrong == 0 && count == 7 ? 0 : 1;
}
