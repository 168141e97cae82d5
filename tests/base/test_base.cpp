// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "base/result.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;

TEST_CASE("sizes are read with binary and decimal units") {
  CHECK(parse_bytes("1536").value() == 1536);
  CHECK(parse_bytes("64k").value() == 65536);
  CHECK(parse_bytes("1.5GiB").value() == 1610612736u);
  CHECK(parse_bytes("2GB").value() == 2000000000u);
  CHECK(parse_bytes("512 MiB").value() == 536870912u);
}

TEST_CASE("a size that is none is refused and quoted") {
  for (const char* bad : {"", "GiB", "-1", "1.5.2G", "4 gigs", "nan", "1e40"}) {
    const auto result = parse_bytes(bad);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("'" + std::string(bad) + "'") != std::string::npos);
  }
}

TEST_CASE("byte counts are printed with three significant places and a binary unit") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1610612736u) == "1.50 GiB");
}

TEST_CASE("reading the absent side of a result throws") {
  Result<int> good = 3;
  Result<int> bad = Error{ErrorCode::queue_full, "full", ""};
  CHECK(good.value() == 3);
  CHECK_THROWS_AS(good.error(), InvariantError);
  CHECK_THROWS_AS(bad.value(), InvariantError);
  CHECK(bad.error().code == ErrorCode::queue_full);
}

TEST_CASE("a broken invariant names its file and line") {
  try {
    check(1 + 1 == 3, "sums hold");
    FAIL("did not throw");
  } catch (const InvariantError& e) {
    CHECK(std::string(e.what()).find("test_base.cpp:") != std::string::npos);
    CHECK(std::string(e.what()).find("sums hold") != std::string::npos);
  }
}

TEST_CASE("a failing failpoint tells its place the number that it was given") {
  set_failpoints("a=fail:4096*1;b=fail");
  const Fault fault = failpoint("a");
  CHECK(fault.fail);
  CHECK(fault.after == 4096);
  CHECK_FALSE(failpoint("a").fail);
  CHECK(failpoint("b").after == 0);
  set_failpoints("");
}

TEST_CASE("a counted failpoint acts as often as it says and then never again") {
  set_failpoints("a=fail*2;b=die");
  CHECK(hit_failpoint("a"));
  CHECK(hit_failpoint("a"));
  CHECK_FALSE(hit_failpoint("a"));
  CHECK_THROWS_AS(hit_failpoint("b"), InvariantError);
  CHECK_FALSE(hit_failpoint("unknown"));
  set_failpoints("");
}

TEST_CASE("log lines reach the sink that was set") {
  std::string seen;
  set_log_sink([&](LogLevel, std::string_view text) { seen += text; });
  log(LogLevel::info, "hello");
  set_log_sink({});
  log(LogLevel::info, "lost");
  CHECK(seen == "hello");
}
