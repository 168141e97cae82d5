// SPDX-License-Identifier: Apache-2.0
#include "engine/request/prompt.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace cairn;
using engine::encode_prompt;

namespace {

const engine::ModelBundle& demo_bundle() {
  static const auto bundle = engine::load_model_bundle(EngineOptions{});
  return *bundle;
}

ChatPrompt chat(const std::string& messages) {
  ChatPrompt prompt;
  prompt.messages_json = messages;
  return prompt;
}

std::string decoded(const std::vector<std::int32_t>& tokens, std::int32_t from,
                    std::int32_t count) {
  const std::vector<std::int32_t> part(tokens.begin() + from, tokens.begin() + from + count);
  return demo_bundle().tokenizer->decode(part, false);
}

}  // namespace

TEST_CASE("structural points are the starts of messages and of the generation prompt") {
  const auto encoded = encode_prompt(
      demo_bundle(),
      chat(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hello there"}])"));
  REQUIRE(encoded.ok());
  const auto& points = encoded->structure;
  REQUIRE(points.size() == 2);  // the system message starts at 0: nothing to keep there
  CHECK(decoded(encoded->tokens, points[0].position, 2) == "<|im_start|>user");
  CHECK(decoded(encoded->tokens, points[1].position, 2) == "<|im_start|>assistant");
}

TEST_CASE("C9: a message that spells a special token stays text") {
  const auto spelled =
      encode_prompt(demo_bundle(), chat(R"([{"role":"user","content":"a<|im_end|>b"}])"));
  const auto plain = encode_prompt(demo_bundle(), chat(R"([{"role":"user","content":"ab"}])"));
  REQUIRE(spelled.ok());
  REQUIRE(plain.ok());
  const auto end = demo_bundle().tokenizer->token_to_id("<|im_end|>");
  const auto count = [&](const std::vector<std::int32_t>& t) {
    return std::count(t.begin(), t.end(), *end);
  };
  CHECK(count(spelled->tokens) == count(plain->tokens));
  CHECK(spelled->text.find("a<|im_end|>b") != std::string::npos);
}

TEST_CASE("B23: all text parts of a message are joined, for every role") {
  const auto parts =
      encode_prompt(demo_bundle(), chat(R"([{"role":"user","content":[{"type":"text","text":"one "},
      {"type":"text","text":"two"}]},{"role":"assistant","content":[{"type":"text","text":"three"}]},
      {"role":"user","content":"four"}])"));
  REQUIRE(parts.ok());
  CHECK(parts->text.find("one two") != std::string::npos);
  CHECK(parts->text.find("three") != std::string::npos);
}

TEST_CASE("a chat that cannot be rendered is the client's error and names the field") {
  for (const char* messages : {"[]", "\"x\"", "{", R"([{"role":"system","content":"x"}])",
                               R"([{"role":"user","content":[{"type":"image_url"}]}])",
                               R"([{"role":"nobody","content":"x"}])"}) {
    const auto encoded = encode_prompt(demo_bundle(), chat(messages));
    CAPTURE(messages);
    REQUIRE_FALSE(encoded.ok());
    CHECK(encoded.error().code == ErrorCode::bad_request);
    CHECK(encoded.error().param.rfind("messages", 0) == 0);
  }
}

TEST_CASE("ids outside the vocabulary are refused by index") {
  const auto encoded = encode_prompt(demo_bundle(), std::vector<std::int32_t>{1, 2, 4096});
  REQUIRE_FALSE(encoded.ok());
  CHECK(encoded.error().message.find("Token id 4096 in prompt[2]") != std::string::npos);
  CHECK_FALSE(encode_prompt(demo_bundle(), std::vector<std::int32_t>{-1}).ok());
  CHECK_FALSE(encode_prompt(demo_bundle(), TextPrompt{}).ok());
}

TEST_CASE("special tokens in plain text are text unless they are asked for") {
  const auto text = encode_prompt(demo_bundle(), TextPrompt{"<|im_start|>", false});
  const auto special = encode_prompt(demo_bundle(), TextPrompt{"<|im_start|>", true});
  CHECK(text->tokens.size() > 1);
  CHECK(special->tokens.size() == 1);
}
