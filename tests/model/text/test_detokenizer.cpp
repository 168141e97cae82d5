// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "base/json.hpp"
#include "model/text/detokenizer.hpp"
#include "model/text/unicode.hpp"
#include "tests/model/text/test_tokenizer_support.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::text;
using namespace cairn::text::test;

namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto t = load_mini(mini());
  return t;
}

std::int32_t byte_id(unsigned char byte) { return 1000 + byte; }

}  // namespace

TEST_CASE("a character is given out whole, when its last byte arrives") {
  Detokenizer stream(tokenizer(), true);
  CHECK(stream.push(byte_id(0xF0)).empty());
  CHECK(stream.push(byte_id(0x9F)).empty());
  CHECK(stream.push(byte_id(0x99)).empty());
  CHECK(stream.push(byte_id(0x82)) == "\xF0\x9F\x99\x82");
  CHECK(stream.push(byte_id('a')) == "a");
  CHECK(stream.flush().empty());
}

TEST_CASE("U+FFFD is given out as soon as bytes can no longer become a character") {
  Detokenizer stream(tokenizer(), true);
  const std::string bad(kReplacement);
  CHECK(stream.push(byte_id(0xF0)).empty());
  CHECK(stream.push(byte_id('a')) == bad + "a");
  CHECK(stream.push(byte_id(0xFF)) == bad);
  CHECK(stream.push(byte_id(0xE4)).empty());
  CHECK(stream.push(byte_id(0xBA)).empty());
  CHECK(stream.flush() == bad);
  CHECK(stream.flush().empty());
}

TEST_CASE("a dropped special token does not disturb the character around it") {
  Detokenizer skipping(tokenizer(), true);
  CHECK(skipping.push(byte_id(0xC3)).empty());
  CHECK(skipping.push(kImEnd).empty());
  CHECK(skipping.push(byte_id(0xA9)) == "\xC3\xA9");
  Detokenizer keeping(tokenizer(), false);
  CHECK(keeping.push(byte_id(0xC3)).empty());
  CHECK(keeping.push(kImEnd) == std::string(kReplacement) + "<|im_end|>");
  CHECK(keeping.push(kThink) == "<think>");
}

TEST_CASE("pushes and flush together are the decoded text, bit for bit") {
  std::mt19937 rng(9);
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::int32_t> ids;
    const std::size_t count = rng() % 40;
    for (std::size_t k = 0; k < count; ++k) {
      switch (rng() % 4) {
        case 0:
          ids.push_back(static_cast<std::int32_t>(rng() % 2100) - 20);
          break;
        case 1:
          ids.push_back(byte_id(static_cast<unsigned char>(0x80 + rng() % 0x80)));
          break;
        default:
          for (const char c : random_text(rng, true).substr(0, 6)) {
            ids.push_back(byte_id(static_cast<unsigned char>(c)));
          }
      }
    }
    for (const bool skip : {false, true}) {
      Detokenizer stream(tokenizer(), skip);
      std::string text;
      std::string bytes;
      for (const std::int32_t id : ids) {
        const std::string part = stream.push(id);
        CHECK(cairn::json::valid_utf8(part));
        text += part;
        if (!(skip && tokenizer()->is_special(id))) bytes += tokenizer()->id_to_bytes(id);
      }
      text += stream.flush();
      CHECK(text == tokenizer()->decode(ids, skip));
      CHECK(text == repair_utf8(bytes, nullptr));
    }
  }
}
