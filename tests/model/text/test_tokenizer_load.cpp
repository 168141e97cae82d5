// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <random>

#include "base/check.hpp"
#include "model/text/tokenizer.hpp"
#include "tests/model/text/test_tokenizer_support.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::text;
using namespace cairn::text::test;

namespace {

std::shared_ptr<const Tokenizer> load(const std::string& json, const std::string& config = "") {
  TokenizerFiles files;
  files.tokenizer_json = json;
  files.tokenizer_config_json = config;
  return Tokenizer::from_files(files);
}

std::shared_ptr<const Tokenizer> load_pair(const std::string& vocab, const std::string& merges,
                                           const std::string& config) {
  TokenizerFiles files;
  files.vocab_json = vocab;
  files.merges_txt = merges;
  files.tokenizer_config_json = config;
  return Tokenizer::from_files(files);
}

// The mini tokenizer.json with the first `from` replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string json = mini().tokenizer_json(true);
  const std::size_t at = json.find(from);
  REQUIRE(at != std::string::npos);
  return json.replace(at, from.size(), to);
}

std::string message(const std::string& json, const std::string& config = "") {
  try {
    (void)load(json, config);
  } catch (const cairn::LoadError& error) {
    return error.what();
  }
  return "loaded";
}

void check_equal(const Tokenizer& a, const Tokenizer& b) {
  REQUIRE(a.vocab_size() == b.vocab_size());
  for (std::int32_t id = 0; id < a.vocab_size(); ++id) {
    CHECK(a.id_to_bytes(id) == b.id_to_bytes(id));
    CHECK(a.is_special(id) == b.is_special(id));
  }
  std::mt19937 rng(10);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(rng, false);
    CHECK(a.encode(text, true) == b.encode(text, true));
    CHECK(a.encode(text, false) == b.encode(text, false));
  }
}

}  // namespace

TEST_CASE("merges load equal whether spelled as strings or as pairs") {
  check_equal(*load(mini().tokenizer_json(true)), *load(mini().tokenizer_json(false)));
}

TEST_CASE("vocab.json with merges.txt loads equal to tokenizer.json") {
  const MiniTokenizer m = mini();
  const std::string config = MiniTokenizer::tokenizer_config_json();
  const auto whole = load(m.tokenizer_json(true), config);
  check_equal(*whole, *load_pair(m.vocab_json(), m.merges_txt(), config));
  std::string windows = m.merges_txt().substr(m.merges_txt().find('\n') + 1);
  for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2)
    windows.insert(at, "\r");
  check_equal(*whole, *load_pair(m.vocab_json(), windows, config));
}

TEST_CASE("tokenizer_config gives end, padding, template and added tokens") {
  const auto t = load(mini().tokenizer_json(true), MiniTokenizer::tokenizer_config_json());
  CHECK(t->eos_ids() == std::vector<std::int32_t>{kImEnd, kEndOfText});
  CHECK(t->pad_id() == kEndOfText);
  CHECK(t->chat_template() == "{{ messages }}");
  CHECK(t->added_tokens().size() == 5);
  CHECK(t->added_tokens()[1].content == "<|im_start|>");
  const auto bare = load(mini().tokenizer_json(true));
  CHECK(bare->eos_ids() == std::vector<std::int32_t>{kEndOfText});
  CHECK_FALSE(bare->pad_id());
  CHECK(bare->chat_template().empty());
  const auto listed = load(
      mini().tokenizer_json(true),
      R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  CHECK(listed->chat_template() == "D");
}

TEST_CASE("a token that only tokenizer_config lists is known, too") {
  const auto t =
      load(mini().tokenizer_json(true),
           R"({"added_tokens_decoder": {"2010": {"content": "<tts_pad>", "special": true}}})");
  CHECK(t->vocab_size() == 2011);
  CHECK(t->encode("<tts_pad>", true) == Ids{2010});
  CHECK(t->is_special(2010));
}

TEST_CASE("an added token that is sought after NFC is found there and within its segment only") {
  const auto t =
      load(changed("\"<think>\", \"lstrip\": false, \"rstrip\": false, \"single_word\": false, "
                   "\"normalized\": false",
                   "\"caf\u00e9\", \"lstrip\": false, \"rstrip\": false, \"single_word\": false, "
                   "\"normalized\": true"));
  CHECK(t->encode("caf\u00e9", true) == Ids{kThink});
  CHECK(t->encode("cafe\u0301", true) == Ids{kThink});
  CHECK(t->encode("cafe\u0301", false) != Ids{kThink});
  const Segment split[] = {{"cafe", true}, {"\u0301", false}};
  CHECK(t->encode_segments(split) == t->encode("cafe\u0301", false));
}

TEST_CASE("what is not supported is refused by name") {
  CHECK(message("") == "tokenizer.json is missing, expected it or vocab.json with merges.txt");
  CHECK(message("[]") == "tokenizer.json: the document is a list, expected an object");
  CHECK(message("{") == "tokenizer.json: line 1, column 2: expected a string");
  CHECK(message(changed(R"("type": "BPE")", R"("type": "Unigram")")) ==
        R"(tokenizer.json: model.type is "Unigram", expected "BPE")");
  CHECK(message(changed(R"("type": "NFC")", R"("type": "Lowercase")")) ==
        R"(tokenizer.json: normalizer.type is "Lowercase", expected "NFC")");
  CHECK(message(changed(R"("pre_tokenizer": {"type": "Sequence")",
                        R"("pre_tokenizer": {"type": "Metaspace")")) ==
        R"(tokenizer.json: pre_tokenizer.type is "Metaspace", expected "Sequence")");
  CHECK(message(
            changed(R"("decoder": {"type": "ByteLevel")", R"("decoder": {"type": "WordPiece")")) ==
        R"(tokenizer.json: decoder.type is "WordPiece", expected "ByteLevel")");
  CHECK(message(changed(R"("post_processor": null)",
                        R"("post_processor": {"type": "TemplateProcessing"})")) ==
        R"(tokenizer.json: post_processor.type is "TemplateProcessing", expected "ByteLevel")");
  CHECK(
      message(changed("Isolated", "Removed")) ==
      R"(tokenizer.json: pre_tokenizer.pretokenizers[0].behavior is "Removed", expected "Isolated")");
  CHECK(message(changed(R"("use_regex": false)", R"("use_regex": true)")) ==
        "tokenizer.json: pre_tokenizer.pretokenizers[1].use_regex is true, expected false");
  CHECK(message(changed(R"("dropout": null)", R"("dropout": 0.1)")) ==
        "tokenizer.json: model.dropout is 0.1, expected null: dropout is not supported");
  CHECK(
      message(changed(R"("byte_fallback": false)", R"("byte_fallback": true)")) ==
      "tokenizer.json: model.byte_fallback is true, expected null: byte fallback is not supported");
  CHECK(message(changed(R"("lstrip": false)", R"("lstrip": true)")) ==
        "tokenizer.json: added_tokens[0].lstrip is true, expected false");
  CHECK(message(mini().tokenizer_json(true), R"({"add_bos_token": true})") ==
        "tokenizer_config.json: add_bos_token is true, expected false");
}

TEST_CASE("a regex that does not compile is an error with the reason") {
  CHECK_THAT(message(changed(R"("Regex": "(?i:)", R"("Regex": "((?i:)")),
             Catch::StartsWith(
                 "tokenizer.json: pre_tokenizer.pretokenizers[0].pattern.Regex does not compile"));
}

TEST_CASE("ids and merges that contradict each other are errors") {
  CHECK(
      message(changed("\"a\": 1097", "\"a\": 1098")) ==
      R"(tokenizer.json: the piece "b" has id 1098 like another piece, expected one piece per id)");
  CHECK(message(changed("\"a\": 1097", "\"a\": -1")) ==
        "tokenizer.json: model.vocab.a is -1, expected a token id from 0 to 4194303");
  CHECK(message(changed("\"a\": 1097", "\"a\": 99999999999")) ==
        "tokenizer.json: model.vocab.a is 99999999999, expected a token id from 0 to 4194303");
  CHECK(message(changed("\"a\": 1097", "\"zz\": 1097")) ==
        "tokenizer.json: the vocabulary has no piece for the byte 97, expected all 256 bytes");
  CHECK(message(changed(R"(["h", "e"])", R"(["h", "Q"])")) ==
        R"(tokenizer.json: merge 0 names the piece "hQ", which the vocabulary lacks)");
  CHECK(message(changed(R"(["h", "e"])", R"(["h", "e", "f"])")) ==
        R"(tokenizer.json: model.merges[0] is a list, expected "left right" or ["left", "right"])");
  CHECK(
      message(changed("{\"id\": 2001", "{\"id\": 2000")) ==
      R"(tokenizer.json: added_tokens[1].content is "<|im_start|>", expected "<|endoftext|>", which has the same id)");
  CHECK(
      message(changed("{\"id\": 2001", "{\"id\": 1097")) ==
      R"(tokenizer.json: id 1097 belongs to "a" and to the added token "<|im_start|>", expected one piece per id)");
  CHECK(
      message(changed("<|im_start|>", "<|im_end|>")) ==
      R"(tokenizer.json: added_tokens[2].content is "<|im_end|>", expected another text: id 2001 has this one)");
  CHECK(message(mini().tokenizer_json(true), R"({"eos_token": "<|nowhere|>"})") ==
        R"(tokenizer_config.json: eos_token is "<|nowhere|>", expected a token of the vocabulary)");
  CHECK(message(mini().tokenizer_json(true), R"({"added_tokens_decoder": {"x": {}}})") ==
        R"(tokenizer_config.json: added_tokens_decoder has the key "x", expected a token id)");
  CHECK_THROWS_WITH(load_pair(mini().vocab_json(), "h e\nhe\n", ""),
                    "merges.txt: line 2 is no merge, expected two pieces with a blank between");
}

TEST_CASE("a corrupted file is refused in words or gives a working tokenizer") {
  const std::string good = mini().tokenizer_json(false);
  std::mt19937 rng(11);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    const std::size_t edits = 1 + rng() % 3;
    for (std::size_t e = 0; e < edits; ++e) {
      const std::size_t at = rng() % bad.size();
      switch (rng() % 4) {
        case 0:
          bad[at] = static_cast<char>(rng());
          break;
        case 1:
          bad.erase(at, rng() % 40);
          break;
        case 2:
          bad.insert(at, bad.substr(rng() % bad.size(), rng() % 40));
          break;
        default:
          if (rng() % 8 == 0) bad.resize(at + 1);
      }
    }
    try {
      const auto t = load(bad);
      const std::string text = random_text(rng, false);
      (void)t->decode(t->encode(text, true), false);
    } catch (const cairn::LoadError& error) {
      ++refused;
      CHECK(std::string(error.what()).size() > 15);
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("a directory is loaded, and its path is part of an error") {
  const auto directory = std::filesystem::temp_directory_path() /
                         ("cairn-tokenizer-" + std::to_string(std::random_device()()));
  std::filesystem::create_directories(directory);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(directory / name) << text;
  };
  CHECK_THROWS_WITH(load_tokenizer(directory), Catch::Contains(directory.string()) &&
                                                   Catch::Contains("tokenizer.json is missing"));
  write("vocab.json", mini().vocab_json());
  write("merges.txt", mini().merges_txt());
  write("tokenizer_config.json", MiniTokenizer::tokenizer_config_json());
  const auto pair = load_tokenizer(directory);
  CHECK(pair->chat_template() == "{{ messages }}");
  write("tokenizer.json", mini().tokenizer_json(true));
  write("chat_template.jinja", "jinja");
  const auto whole = load_tokenizer(directory);
  CHECK(whole->chat_template() == "jinja");
  check_equal(*pair, *whole);
  write("tokenizer.json", "");
  CHECK_THROWS_AS(load_tokenizer(directory), cairn::LoadError);
  std::filesystem::remove_all(directory);
}
