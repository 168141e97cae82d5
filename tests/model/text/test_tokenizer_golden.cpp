// SPDX-License-Identifier: Apache-2.0
// The demo model's tokenizer against ids that the `tokenizers` package gave
// (scripts/make_tokenizer_golden.py).
#include <fstream>
#include <iterator>

#include "base/json.hpp"
#include "model/text/detokenizer.hpp"
#include "model/text/tokenizer.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::text;

namespace {

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

cairn::json::Value golden() {
  std::ifstream in(CAIRN_FIXTURES "/tokenizer_golden.json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return cairn::json::parse(text).take();
}

std::shared_ptr<const Tokenizer> demo() { return load_tokenizer(CAIRN_SOURCE_DIR "/model/demo"); }

}  // namespace

TEST_CASE("the demo tokenizer gives the ids and texts that the tokenizers package gives") {
  const auto tokenizer = demo();
  const auto document = golden();
  const auto& cases = document.find("cases")->items();
  REQUIRE(cases.size() > 100);
  for (const auto& entry : cases) {
    std::vector<std::int32_t> expected;
    for (const auto& id : entry.find("ids")->items()) {
      expected.push_back(static_cast<std::int32_t>(id.as_int()));
    }
    INFO("bytes " << entry.find("hex")->text());
    const auto ids = tokenizer->encode(bytes_of_hex(entry.find("hex")->text()), true);
    CHECK(ids == expected);
    CHECK(tokenizer->decode(expected, false) == entry.find("text")->text());
    CHECK(tokenizer->decode(expected, true) == entry.find("text_without_special")->text());
    Detokenizer stream(tokenizer, true);
    std::string text;
    for (const std::int32_t id : expected) text += stream.push(id);
    text += stream.flush();
    CHECK(text == entry.find("text_without_special")->text());
  }
}

TEST_CASE("the demo tokenizer has the added tokens of Qwen3.5 at the top of its vocabulary") {
  const auto tokenizer = demo();
  REQUIRE(tokenizer->added_tokens().size() == 26);
  CHECK(tokenizer->added_tokens().back().content == "</think>");
  CHECK(tokenizer->added_tokens().back().id == tokenizer->vocab_size() - 1);
  const auto end_of_turn = tokenizer->token_to_id("<|im_end|>");
  const auto end_of_text = tokenizer->token_to_id("<|endoftext|>");
  REQUIRE(end_of_turn);
  CHECK(tokenizer->eos_ids() == std::vector<std::int32_t>{*end_of_turn, *end_of_text});
  CHECK(tokenizer->pad_id() == end_of_text);
  CHECK_FALSE(tokenizer->is_special(*tokenizer->token_to_id("<think>")));
}
