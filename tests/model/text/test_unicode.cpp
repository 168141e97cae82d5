// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <random>

#include "base/json.hpp"
#include "model/text/unicode.hpp"
#include "tests/model/text/test_tokenizer_support.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::text;
using test::utf8;

namespace {
const std::string kBad(kReplacement);
}

TEST_CASE("bytes that are no UTF-8 are replaced as Python's decode with replace does") {
  // Expectations printed by bytes.decode("utf-8", "replace").
  const std::pair<std::string, std::string> cases[] = {
      {"ok", "ok"},
      {"\x80", kBad},
      {"a\xFF\xFE"
       "b",
       "a" + kBad + kBad + "b"},
      {"\xC0\xAF", kBad + kBad},                        // overlong
      {"\xE0\x80\xAF", kBad + kBad + kBad},             // overlong
      {"\xED\xA0\x80", kBad + kBad + kBad},             // a surrogate
      {"\xF4\x90\x80\x80", kBad + kBad + kBad + kBad},  // above U+10FFFF
      {"\xF0\x9F\x99"
       "x",
       kBad + "x"},  // one for the part of a character
      {"\xF0\x9F\x99", kBad},
      {"\xE4\xBA", kBad},
      {"\xE4\xBA\xF0\x9F\x99\x82", kBad + "\xF0\x9F\x99\x82"},
      {"\xF1\x80\x80\xC3\xA9", kBad + "\xC3\xA9"},
      {"\xC3", kBad},
      {"\xF5\x80", kBad + kBad},
  };
  for (const auto& [bytes, text] : cases) CHECK(repair_utf8(bytes, nullptr) == text);
}

TEST_CASE("repairing leaves valid text alone and makes any other valid") {
  std::mt19937 rng(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = test::random_text(rng, i % 2 == 0);
    const std::string repaired = repair_utf8(text, nullptr);
    CHECK(cairn::json::valid_utf8(repaired));
    if (cairn::json::valid_utf8(text)) CHECK(repaired == text);
  }
}

TEST_CASE("NFC composes, reorders and excludes as Unicode says") {
  const auto nfc = [](const std::string& s) { return to_nfc(s, nullptr); };
  CHECK(nfc("e" + utf8(0x301)) == utf8(0xE9));
  CHECK(nfc(utf8(0x212B)) == utf8(0xC5));
  CHECK(nfc(utf8(0x1100) + utf8(0x1161) + utf8(0x11A8)) == utf8(0xAC01));
  CHECK(nfc(utf8(0xAC00) + utf8(0x11A8)) == utf8(0xAC01));
  CHECK(nfc(utf8(0x344)) == utf8(0x308) + utf8(0x301));
  CHECK(nfc("q" + utf8(0x307) + utf8(0x323)) == "q" + utf8(0x323) + utf8(0x307));
  CHECK(nfc("d" + utf8(0x307) + utf8(0x323)) == utf8(0x1E0D) + utf8(0x307));
  CHECK(nfc(utf8(0x958)) == utf8(0x915) + utf8(0x93C));  // a composition exclusion
  CHECK(nfc(utf8(0x2F800)) == utf8(0x4E3D));
  CHECK(nfc(utf8(0xFB01)) == utf8(0xFB01));  // no compatibility mapping
  CHECK(nfc(utf8(0x1E9B) + utf8(0x323)) == utf8(0x1E9B) + utf8(0x323));
}

TEST_CASE("NFC is asked for wherever it changes something, and is idempotent") {
  CHECK_FALSE(needs_nfc("plain"));
  CHECK_FALSE(needs_nfc(utf8(0xE9) + utf8(0x4EBA) + utf8(0x1F642)));
  CHECK_FALSE(needs_nfc(utf8(0x915) + utf8(0x94D) + utf8(0x937)));
  CHECK(needs_nfc("e" + utf8(0x301)));
  std::mt19937 rng(2);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = test::random_text(rng, true);
    const std::string once = to_nfc(text, nullptr);
    if (once != text) CHECK(needs_nfc(text));
    CHECK(to_nfc(once, nullptr) == once);
  }
}

TEST_CASE("a million marks out of order are put in order in bounded time") {
  std::string text = "a";
  for (int i = 0; i < 250000; ++i) text += utf8(0x301);
  for (int i = 0; i < 250000; ++i) text += utf8(0x323);
  const auto start = std::chrono::steady_clock::now();
  const std::string out = to_nfc(text, nullptr);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(out.starts_with(utf8(0x1EA1) + utf8(0x323)));
}

TEST_CASE("the offset map leads back to the bytes that were rewritten") {
  OffsetMap map;
  const std::string text =
      "ab\xFF"
      "cde" +
      utf8(0x301) + "f";
  const std::string repaired = repair_utf8(text, &map);
  CHECK(map.find(1).at == 1);
  CHECK(map.find(2).at == 2);
  CHECK(map.find(2).exact);
  CHECK_FALSE(map.find(3).exact);
  CHECK(map.find(5).at == 3);
  CHECK(map.find(repaired.size()).at == text.size());
  OffsetMap nfc_map;
  const std::string composed = to_nfc("xe" + utf8(0x301) + "y", &nfc_map);
  CHECK(nfc_map.find(1).at == 1);
  CHECK(nfc_map.find(2).at == 1);
  CHECK(nfc_map.find(3).at == 4);
  CHECK(composed.size() == 4);
}
