// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <random>
#include <thread>

#include "base/json.hpp"
#include "model/text/tokenizer.hpp"
#include "model/text/unicode.hpp"
#include "tests/model/text/test_tokenizer_support.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::text;
using namespace cairn::text::test;

namespace {

const MiniTokenizer& files() {
  static const MiniTokenizer m = mini();
  return m;
}

const Tokenizer& tokenizer() {
  static const auto t = load_mini(files());
  return *t;
}

// Ids of the named pieces, merged as written.
Ids ids_of(const std::vector<std::string>& pieces) {
  Ids ids;
  for (const std::string& piece : pieces) ids.push_back(files().id(piece));
  return ids;
}

Ids plain(const std::string& text) { return tokenizer().encode(text, false); }
Ids special(const std::string& text) { return tokenizer().encode(text, true); }

Ids segments(const std::vector<Segment>& parts, TokenMap* map = nullptr) {
  return tokenizer().encode_segments(parts, map);
}

Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("pieces merge by rank, and ids come from the vocabulary") {
  CHECK(plain("hello world") == ids_of({"hello", " world"}));
  CHECK(plain("hell") == ids_of({"hell"}));
  CHECK(plain("abc") == ids_of({"abc"}));
  CHECK(plain("xabc") == ids_of({"x", "abc"}));
  CHECK(plain("in") == ids_of({"in"}));
  CHECK(plain("").empty());
  CHECK(plain("\n\n\n") == ids_of({"\n\n", "\n"}));
}

TEST_CASE("of equal ranks the leftmost pair merges first") {
  CHECK(plain("lll") == ids_of({"ll", "l"}));
  CHECK(plain("=======") == ids_of({"====", "==", "="}));
}

TEST_CASE("short and long pieces merge as the definition says") {
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> pieces = {"a", "b", "c"};
  std::mt19937 rng(4);
  while (merges.size() < 60) {
    const std::string left = pieces[rng() % pieces.size()];
    const std::string right = pieces[rng() % pieces.size()];
    if (left.size() + right.size() > 12) continue;
    merges.emplace_back(left, right);
    pieces.push_back(left + right);
  }
  // The same pair twice is dropped: which rank counts is no matter here.
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::pair<std::string, std::string>> unique;
  for (const auto& merge : merges) {
    if (std::find(unique.begin(), unique.end(), merge) == unique.end()) unique.push_back(merge);
  }
  const MiniTokenizer random(unique);
  const auto t = load_mini(random);
  for (int i = 0; i < 1500; ++i) {
    std::string word;
    const std::size_t length = 1 + rng() % (i % 10 == 0 ? 400 : 60);
    while (word.size() < length) word += static_cast<char>('a' + rng() % 3);
    CHECK(t->encode(word, false) == random.merge_by_definition(word));
  }
}

TEST_CASE("a vocabulary entry that no merges lead to is not used as a token") {
  MiniTokenizer m = mini();
  m.vocab["xyz"] = 1500;
  const auto t = load_mini(m);
  const Ids bytes = {m.id("x"), m.id("y"), m.id("z")};
  CHECK(t->encode("xyz", false) == bytes);
  CHECK(t->encode("xyz", false) == bytes);  // the second time from what was learnt the first time
  CHECK(t->id_to_bytes(1500) == "xyz");
}

TEST_CASE("added tokens are cut out first, the longest of those that fit") {
  CHECK(special("<|im_start|>hello<|im_end|>") ==
        joined({{kImStart}, ids_of({"hello"}), {kImEnd}}));
  CHECK(special("<think>more") == Ids{kThinkMore});
  CHECK(special("<think>mor") == joined({{kThink}, plain("mor")}));
  CHECK(special("<<think>") == joined({ids_of({"<"}), {kThink}}));
  CHECK(special("<|im_start") == plain("<|im_start"));
}

TEST_CASE("text that spells an added token stays text where they are not allowed") {
  const Ids ids = plain("<|im_start|>");
  CHECK(ids.size() > 1);
  CHECK(std::find(ids.begin(), ids.end(), kImStart) == ids.end());
  CHECK(tokenizer().decode(ids, true) == "<|im_start|>");
  CHECK(plain("<think>").size() > 1);
}

TEST_CASE("a user's words never become the template's markers") {
  const Ids ids = segments({{"<|im_start|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}});
  CHECK(ids == joined({{kImStart}, plain("<|im_end|>"), {kImEnd}}));
}

TEST_CASE("a marker that reaches out of the segments that allow it stays text") {
  CHECK(segments({{"<|im_", true}, {"start|>", false}}) == plain("<|im_start|>"));
  CHECK(segments({{"<|im_", false}, {"start|>", true}}) == plain("<|im_start|>"));
  CHECK(segments({{"<|im_", true}, {"start|>", true}}) == Ids{kImStart});
  // The longer token is out of bounds, the shorter one is not.
  CHECK(segments({{"<think>", true}, {"more", false}}) == joined({{kThink}, plain("more")}));
}

TEST_CASE("segment edges do not change the ids of text") {
  std::mt19937 rng(5);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(rng, i % 2 == 0);
    for (const bool allowed : {false, true}) {
      std::vector<Segment> parts;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = std::min<std::size_t>(rng() % 7, text.size() - at);
        parts.push_back({std::string_view(text).substr(at, n), allowed});
        at += n;
      }
      CHECK(segments(parts) == tokenizer().encode(text, allowed));
    }
  }
}

TEST_CASE("the token map says where each token starts") {
  TokenMap map;
  const Ids ids = segments({{"<|im_start|>", true}, {"hello wor\xFFld", false}}, &map);
  REQUIRE(map.begin.size() == ids.size() + 1);
  REQUIRE(map.edge.size() == ids.size() + 1);
  CHECK(map.begin.front() == 0);
  CHECK(map.begin[1] == 12);
  CHECK(map.begin[2] == 17);
  CHECK(map.begin.back() == 24);
  CHECK(map.tokens_before_edge(0) == 0);
  CHECK(map.tokens_before_edge(11) == 0);
  CHECK(map.tokens_before_edge(12) == 1);
  CHECK(map.tokens_before_edge(19) == 2);
  CHECK(map.tokens_before_edge(24) == ids.size());
  CHECK(map.tokens_before_edge(1000) == ids.size());
}

TEST_CASE("token maps agree with the bytes of tokens where nothing is rewritten") {
  std::mt19937 rng(6);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(rng, true);
    if (needs_nfc(text)) continue;
    TokenMap map;
    const Ids ids = segments({{text, true}}, &map);
    std::size_t at = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      CHECK(map.begin[k] == at);
      at += tokenizer().id_to_bytes(ids[k]).size();
    }
    CHECK(map.begin[ids.size()] == at);
  }
}

TEST_CASE(
    "a place in text backs off to the last edge, and the tokens before it are the text before it") {
  CHECK(tokenizer().last_pretoken_edge("hello world", 7) == 5);
  CHECK(tokenizer().last_pretoken_edge("hello world", 5) == 5);
  CHECK(tokenizer().last_pretoken_edge("hello world", 4) == 0);
  CHECK(tokenizer().last_pretoken_edge("hello world", 11) == 11);
  CHECK(tokenizer().last_pretoken_edge("", 3) == 0);
  // No edge lies inside a character that NFC composes.
  const std::string composed = "1e" + utf8(0x301) + "x";
  CHECK(tokenizer().last_pretoken_edge(composed, 2) == 1);
  std::mt19937 rng(12);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(rng, true);
    if (needs_nfc(text)) continue;
    TokenMap map;
    const Ids ids = segments({{text, false}}, &map);
    const std::size_t place = rng() % (text.size() + 1);
    const std::size_t edge = tokenizer().last_pretoken_edge(text, place);
    const std::size_t tokens = map.tokens_before_edge(place);
    std::string before;
    for (std::size_t k = 0; k < tokens; ++k) before += tokenizer().id_to_bytes(ids[k]);
    CHECK(edge <= place);
    CHECK(before == text.substr(0, edge));
  }
}

TEST_CASE("NFC applies to text but not before added tokens are found") {
  CHECK(plain("e" + utf8(0x301)) == ids_of({"\xC3\xA9"}));
  // U+0338 composes with '>': the marker has been cut out before.
  CHECK(special("<think>" + utf8(0x338)) == joined({{kThink}, plain(utf8(0x338))}));
}

TEST_CASE("bytes that are no UTF-8 are encoded as U+FFFD") {
  CHECK(plain("a\xFF") == plain("a" + utf8(0xFFFD)));
  CHECK(plain("\xF0\x9F\x99") == plain(utf8(0xFFFD)));
}

TEST_CASE("decoding gives back NFC of any valid text, and the repaired text of any other") {
  std::mt19937 rng(7);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = random_text(rng, i % 2 == 0);
    const std::string expected = to_nfc(repair_utf8(text, nullptr), nullptr);
    const Ids ids = plain(text);
    for (const std::int32_t id : ids) REQUIRE(id < tokenizer().vocab_size());
    CHECK(tokenizer().decode(ids, true) == expected);
  }
}

TEST_CASE("special tokens are dropped from text on request, other added tokens are not") {
  const Ids ids = special("<|im_start|><think>hello<|im_end|>");
  CHECK(tokenizer().decode(ids, true) == "<think>hello");
  CHECK(tokenizer().decode(ids, false) == "<|im_start|><think>hello<|im_end|>");
  CHECK(tokenizer().decode(Ids{-1, 1999, 999999, kImEnd}, true).empty());
}

TEST_CASE("tokens are found by their bytes and ids by theirs") {
  CHECK(tokenizer().token_to_id("<|im_start|>") == kImStart);
  CHECK(tokenizer().token_to_id(" world") == files().id(" world"));
  CHECK_FALSE(tokenizer().token_to_id("no such token"));
  CHECK(tokenizer().id_to_bytes(kThink) == "<think>");
  CHECK(tokenizer().id_to_bytes(files().id("\xC3")) == "\xC3");
  CHECK(tokenizer().id_to_bytes(-1).empty());
  CHECK(tokenizer().id_to_bytes(1999).empty());
  CHECK(tokenizer().vocab_size() == kThinkMore + 1);
  CHECK(tokenizer().is_special(kImEnd));
  CHECK_FALSE(tokenizer().is_special(kThink));
  CHECK_FALSE(tokenizer().is_special(-5));
  CHECK_FALSE(tokenizer().is_special(1 << 30));
}

TEST_CASE("a megabyte of one letter is encoded in bounded time") {
  for (const char* unit :
       {"l", "ab", " ", "=", "\n", "<", "<|im_start", "\xCC\xA3\xCC\x81", "\xFF", "1"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    const auto start = std::chrono::steady_clock::now();
    CHECK_FALSE(special(text).empty());
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  }
}

TEST_CASE("threads that encode with one tokenizer get the same ids") {
  std::mt19937 rng(8);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  const auto fresh = load_mini(files());
  for (int i = 0; i < 300; ++i) {
    texts.push_back(random_text(rng, false));
    expected.push_back(special(texts.back()));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < texts.size(); ++i)
        wrong += fresh->encode(texts[i], true) != expected[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
