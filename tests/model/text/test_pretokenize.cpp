// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <random>

#include "base/check.hpp"
#include "model/text/pretokenize.hpp"
#include "model/text/unicode.hpp"
#include "tests/model/text/test_tokenizer_support.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::text;
using test::utf8;
using Pieces = std::vector<std::string>;

namespace {

Pieces split(const Pretokenizer& pretokenizer, const std::string& text) {
  std::vector<std::size_t> ends;
  pretokenizer.split(text, ends);
  Pieces pieces;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

Pieces qwen35(const std::string& text) {
  static const Pretokenizer pretokenizer(kQwen35Pattern);
  return split(pretokenizer, text);
}

Pieces qwen2(const std::string& text) {
  static const Pretokenizer pretokenizer(kQwen2Pattern);
  return split(pretokenizer, text);
}

// True when PCRE2's tables, which may be older, know the character as ours do.
bool same_class(std::uint32_t cp) {
  static const Pretokenizer letter(R"(x\p{L})");
  static const Pretokenizer mark(R"(x\p{M})");
  static const Pretokenizer number(R"(x\p{N})");
  static const Pretokenizer space(R"(x\s)");
  static std::map<std::uint32_t, bool> known;
  const auto [entry, fresh] = known.emplace(cp, false);
  if (fresh) {
    const std::string probe = "x" + utf8(cp) + "y";
    unsigned bits = 0;
    if (split(letter, probe).size() == 2) bits |= kLetter;
    if (split(mark, probe).size() == 2) bits |= kMark;
    if (split(number, probe).size() == 2) bits |= kNumber;
    if (split(space, probe).size() == 2) bits |= kSpace;
    entry->second = bits == (char_classes()[cp] & ~kNewline);
  }
  return entry->second;
}

bool same_classes(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = code_point(text.data() + i);
    if (!same_class(c.value)) return false;
    i += c.length;
  }
  return true;
}

const std::string kKssa =
    utf8(0x915) + utf8(0x94D) + utf8(0x937);  // a conjunct: letter, virama, letter

}  // namespace

TEST_CASE("combining marks belong to words with the Qwen3.5 rule and not with the older one") {
  CHECK(qwen35(kKssa) == Pieces{kKssa});
  CHECK(qwen2(kKssa) == Pieces{utf8(0x915), utf8(0x94D) + utf8(0x937)});
  const std::string thai =
      utf8(0xE2A) + utf8(0xE27) + utf8(0xE31) + utf8(0xE2A) + utf8(0xE14) + utf8(0xE35);
  CHECK(qwen35(thai) == Pieces{thai});
  CHECK(qwen35("cot" + utf8(0x303) + "hm") == Pieces{"cot" + utf8(0x303) + "hm"});
  CHECK(qwen35(utf8(0x301) + "a") == Pieces{utf8(0x301) + "a"});
  CHECK(qwen35(utf8(0x301)) == Pieces{utf8(0x301)});
  CHECK(qwen35("1" + utf8(0x301)) == Pieces{"1", utf8(0x301)});
  CHECK(qwen2("." + utf8(0x301)) == Pieces{"." + utf8(0x301)});
}

TEST_CASE("digits stand alone, of every script") {
  CHECK(qwen35("2024") == Pieces{"2", "0", "2", "4"});
  CHECK(qwen35(utf8(0x663) + utf8(0xBD)) == Pieces{utf8(0x663), utf8(0xBD)});
}

TEST_CASE("contractions are cut off in either case") {
  CHECK(qwen35("we'll don'T") == Pieces{"we", "'ll", " don", "'T"});
  CHECK(qwen35("x'RE'v") == Pieces{"x", "'RE", "'v"});
  CHECK(qwen35("x'\xC5\xBF") == Pieces{"x", "'\xC5\xBF"});  // the long s is an s
  CHECK(qwen35("'ss") == Pieces{"'s", "s"});
  CHECK(qwen35("'l") == Pieces{"'l"});
}

TEST_CASE("symbols run together and take the line ends that follow") {
  CHECK(qwen35("(x):\n\n  y") == Pieces{"(x", "):\n\n", " ", " y"});
  CHECK(qwen35("a->b") == Pieces{"a", "->", "b"});
  CHECK(qwen35(" ==\r\n") == Pieces{" ==\r\n"});
}

TEST_CASE("the last blank before a word belongs to the word") {
  CHECK(qwen35("a   b") == Pieces{"a", "  ", " b"});
  CHECK(qwen35("a\t\tb") == Pieces{"a", "\t", "\tb"});
  CHECK(qwen35("a   ") == Pieces{"a", "   "});
  CHECK(qwen35(" \n \n  x") == Pieces{" \n \n", " ", " x"});
  CHECK(qwen35("  1") == Pieces{" ", " ", "1"});
  CHECK(qwen35("\t1") == Pieces{"\t", "1"});
  CHECK(qwen35(utf8(0x3000) + utf8(0x3000) + "x") == Pieces{utf8(0x3000), utf8(0x3000) + "x"});
}

TEST_CASE("the scanner cuts where the regex cuts") {
  for (const std::string_view pattern : {kQwen35Pattern, kQwen2Pattern}) {
    const Pretokenizer by_hand(pattern);
    const Pretokenizer by_regex(pattern, Pretokenizer::Engine::regex);
    REQUIRE(by_hand.has_scanner());
    REQUIRE_FALSE(by_regex.has_scanner());
    std::mt19937 rng(3);
    int compared = 0;
    for (int i = 0; i < 8000; ++i) {
      const std::string text = test::random_text(rng, true);
      if (!same_classes(text)) continue;
      ++compared;
      if (split(by_hand, text) != split(by_regex, text)) {
        INFO(text);
        CHECK(split(by_hand, text) == split(by_regex, text));
      }
    }
    CHECK(compared > 4000);
  }
}

TEST_CASE("text between the matches of a regex is a piece of its own") {
  const Pretokenizer pretokenizer("b+");
  CHECK(split(pretokenizer, "abbac") == Pieces{"a", "bb", "ac"});
  CHECK(split(pretokenizer, "").empty());
  const Pretokenizer empty_matches("b*");
  CHECK(split(empty_matches, "abba") == Pieces{"a", "bb", "a"});
}

TEST_CASE("the regex sees white space as Unicode defines it") {
  const Pretokenizer spaces(R"(\s+|\S+)");
  CHECK(split(spaces, "a" + utf8(0x180E)) == Pieces{"a" + utf8(0x180E)});
  CHECK(split(spaces, "a" + utf8(0x85) + utf8(0x2003)) == Pieces{"a", utf8(0x85) + utf8(0x2003)});
  const Pretokenizer classes(R"([\s]+|[^\s]+)");
  CHECK(split(classes, utf8(0x180E) + " ") == Pieces{utf8(0x180E), " "});
}

TEST_CASE("a regex that explodes on an input gives up and still covers every byte") {
  const Pretokenizer hostile(R"((?:a+)+$|b)");
  std::string text(5000, 'a');
  text += "b";
  const auto start = std::chrono::steady_clock::now();
  std::string joined;
  for (const std::string& piece : split(hostile, text)) joined += piece;
  CHECK(joined == text);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("a megabyte of one kind is cut in bounded time") {
  for (const char* unit : {"a", " ", "\n", "=", "1", "'", "\xCC\x81"}) {
    std::string text;
    while (text.size() < 1000000) text += unit;
    text += "x";
    for (const auto engine : {Pretokenizer::Engine::automatic, Pretokenizer::Engine::regex}) {
      const Pretokenizer pretokenizer(kQwen35Pattern, engine);
      const auto start = std::chrono::steady_clock::now();
      std::vector<std::size_t> ends;
      pretokenizer.split(text, ends);
      CHECK(ends.back() == text.size());
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
    }
  }
}

TEST_CASE("a regex that does not compile is refused with the reason") {
  CHECK_THROWS_AS(Pretokenizer("(a"), cairn::LoadError);
  CHECK_THROWS_WITH(Pretokenizer("(a"), Catch::Contains("missing closing parenthesis"));
}
