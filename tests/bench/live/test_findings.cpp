// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/json.hpp"
#include "bench/live/findings.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::bench;

TEST_CASE("Quantiles lie between the values around them, a median in the middle") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({5, 1, 3}) == 3);
  CHECK(median({4, 1, 2, 3}) == Approx(2.5));
  CHECK(quantile({1, 2, 3, 4, 5}, 0.25) == Approx(2));
  CHECK(quantile({1, 2, 3, 4, 5}, 1) == Approx(5));
  CHECK(quantile({0, 10}, 0.3) == Approx(3));
}

TEST_CASE("A finding is missed above its limit or when it is no number, never without a limit") {
  CHECK_FALSE(Finding{"a", 1.5, "", 1.5}.missed());
  CHECK(Finding{"a", 1.51, "", 1.5}.missed());
  CHECK(Finding{"a", std::nan(""), "", 1.5}.missed());
  CHECK_FALSE(Finding{"a", 100, "ms", {}}.missed());
}

TEST_CASE("Table and JSON tell value, limit and verdict of every finding") {
  const Findings findings = {
      {"kept", 0.5, "ms", 1.0}, {"late", 2.5, "", 1.25}, {"told", 7, "", {}}};
  const std::string table = to_markdown("chat", findings);
  CHECK_THAT(table, Catch::Contains("| kept | 0.5 ms | 1 ms | met |"));
  CHECK_THAT(table, Catch::Contains("| late | 2.5 | 1.25 | **missed** |"));
  CHECK_THAT(table, Catch::Contains("| told | 7 | - |  |"));
  const auto json = json::parse(to_json(findings));
  REQUIRE(json.ok());
  REQUIRE(json->items().size() == 3);
  const json::Value& late = json->items()[1];
  CHECK(late.find("what")->text() == "late");
  CHECK(late.find("value")->as_double() == 2.5);
  CHECK(late.find("at_most")->as_double() == 1.25);
  CHECK_FALSE(late.find("met")->as_bool());
  CHECK(json->items()[2].find("at_most")->is(json::Kind::null));
}
