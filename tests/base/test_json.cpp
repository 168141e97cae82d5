// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;

TEST_CASE("key order and number text survive reading") {
  const auto v =
      json::parse(R"({"b": 1.0, "a": [1e5, -0, 12345678901234567890], "b2": {"x": null}})");
  REQUIRE(v.ok());
  CHECK(v->members()[0].first == "b");
  CHECK(v->members()[1].first == "a");
  CHECK(v->find("b")->text() == "1.0");
  CHECK(v->find("a")->items()[0].text() == "1e5");
  CHECK(v->find("a")->items()[2].text() == "12345678901234567890");
  CHECK(v->find("a")->items()[0].as_double() == 1e5);
  CHECK_FALSE(v->find("b")->is_integer());
}

TEST_CASE("strings are unescaped, surrogate pairs joined") {
  const auto v = json::parse("\"a\\n\\u00e9\\ud83d\\ude42\\\"\"");
  REQUIRE(v.ok());
  CHECK(v->text() == "a\n\xc3\xa9\xf0\x9f\x99\x82\"");
}

TEST_CASE("malformed documents are refused with line and column") {
  const auto v = json::parse("{\n  \"a\": ,\n}");
  REQUIRE_FALSE(v.ok());
  CHECK(v.error().message.find("line 2, column 8") != std::string::npos);
  for (const char* bad : {"", "{", "{:", "[1,]", "\"\\ud800\"", "01", "1 2", "nul", "\"\x01\"",
                          "[\"a\" \"b\"]", "-", "1.", "1e", "\"\\x\"", "\xff"}) {
    CHECK_FALSE(json::parse(bad).ok());
  }
  CHECK_FALSE(json::parse(std::string(1000, '[')).ok());
}

TEST_CASE("large objects are looked up by key") {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i)
    text += (i ? "," : "") + ("\"k" + std::to_string(i) + "\":" + std::to_string(i));
  const auto v = json::parse(text + "}");
  REQUIRE(v.ok());
  CHECK(v->find("k999")->as_int() == 999);
  CHECK(v->find("k1000") == nullptr);
}

TEST_CASE("a repeated key keeps its first place and its last value") {
  const auto v = json::parse(R"({"a":1,"b":2,"a":3})");
  REQUIRE(v.ok());
  CHECK(v->members().size() == 2);
  CHECK(v->members()[0].second.as_int() == 3);
}

TEST_CASE("many repeated keys are dropped wherever they stand") {
  std::string text = "{";
  for (int i = 0; i < 60; ++i) {
    text += (i ? "," : "") + ("\"k" + std::to_string(i % 20) + "\":" + std::to_string(i));
  }
  const auto v = json::parse(text + "}");
  REQUIRE(v.ok());
  REQUIRE(v->members().size() == 20);
  for (int i = 0; i < 20; ++i) {
    CHECK(v->members()[static_cast<std::size_t>(i)].first == "k" + std::to_string(i));
    CHECK(v->find("k" + std::to_string(i))->as_int() == i + 40);
  }
}

TEST_CASE("numbers too small are zero and numbers too large are infinite") {
  CHECK(json::parse("1e-400")->as_double() == 0);
  CHECK(json::parse("1e400")->as_double() > 1e308);
  CHECK(json::parse("-1e400")->as_double() < -1e308);
  CHECK(json::parse("0.1")->as_double() == 0.1);
}
