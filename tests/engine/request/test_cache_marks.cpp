// SPDX-License-Identifier: Apache-2.0
#include "engine/request/cache_marks.hpp"

#include <algorithm>

#include "engine/request/prompt.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using engine::StateKind;

namespace {

constexpr const char* kMark = R"("cache_control":{"type":"ephemeral"})";

const engine::ModelBundle& demo_bundle() {
  static const auto bundle = engine::load_model_bundle(EngineOptions{});
  return *bundle;
}

Result<engine::EncodedPrompt> encode(const std::string& messages, bool generate = true) {
  ChatPrompt prompt;
  prompt.messages_json = messages;
  prompt.add_generation_prompt = generate;
  return engine::encode_prompt(demo_bundle(), prompt);
}

// The text before each marked place.
std::vector<std::string> before_marks(const engine::EncodedPrompt& prompt) {
  std::vector<std::string> texts;
  for (const auto& point : prompt.structure) {
    if (point.kind != StateKind::pinned) continue;
    const std::span<const std::int32_t> tokens(prompt.tokens);
    texts.push_back(demo_bundle().tokenizer->decode(
        tokens.first(static_cast<std::size_t>(point.position)), false));
  }
  return texts;
}

std::string message(const std::string& role, const std::string& content, const char* more = "") {
  return R"({"role":")" + role + R"(","content":)" + content + (*more ? "," : "") + more + "}";
}

text::RenderedChat rendered(std::string text, std::vector<std::size_t> starts) {
  text::RenderedChat chat;
  chat.text = std::move(text);
  chat.message_starts = std::move(starts);
  return chat;
}

}  // namespace

TEST_CASE("a marked message is kept up to where the next one starts") {
  const auto prompt =
      encode("[" + message("system", "\"Be brief.\"", kMark) + "," + message("user", "\"One.\"") +
             "," + message("user", "\"Two.\"", kMark) + "]");
  REQUIRE(prompt.ok());
  const auto texts = before_marks(*prompt);
  REQUIRE(texts.size() == 2);
  const std::string& whole = prompt->text;
  CHECK(texts[0] == whole.substr(0, whole.find("<|im_start|>", 1)));
  CHECK(texts[1] == whole.substr(0, whole.rfind("<|im_start|>")));
}

TEST_CASE("marks change nothing of the prompt") {
  const std::string parts = R"([{"type":"text","text":"One. ")";
  const auto marked = encode(
      "[" + message("user", parts + "," + kMark + R"(},{"type":"text","text":"Two."}])", kMark) +
      "]");
  const auto plain =
      encode("[" + message("user", parts + R"(},{"type":"text","text":"Two."}])") + "]");
  REQUIRE(marked.ok());
  REQUIRE(plain.ok());
  CHECK(marked->tokens == plain->tokens);
  CHECK(marked->text == plain->text);
  CHECK(before_marks(*plain).empty());
  CHECK(before_marks(*marked).size() == 2);
}

TEST_CASE("a mark behind a part inside text backs off to the last edge that no merge crosses") {
  const auto cut = [](const std::string& first, const std::string& second) {
    const auto prompt =
        encode("[" +
               message("user", R"([{"type":"text","text":")" + first + "\"," + kMark +
                                   R"(},{"type":"text","text":")" + second + R"("}])") +
               "]");
    REQUIRE(prompt.ok());
    const auto texts = before_marks(*prompt);
    REQUIRE(texts.size() == 1);
    return texts[0].substr(texts[0].find("user\n") + 5);
  };
  CHECK(cut("A long document.", " And a question") == "A long document.");
  CHECK(cut("A long docu", "ment. And a question") == "A long");
}

TEST_CASE("a mark on a message without text is kept like any other") {
  const std::string call = R"("tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}],)";
  const auto prompt = encode("[" + message("user", "\"Go.\"") + "," +
                             message("assistant", "null", (call + kMark).c_str()) + "," +
                             message("user", "\"On.\"") + "]");
  REQUIRE(prompt.ok());
  const auto texts = before_marks(*prompt);
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].find("Go.") != std::string::npos);
  CHECK(texts[0].find("On.") == std::string::npos);
  CHECK(prompt->text.substr(texts[0].size()).starts_with("<|im_start|>user\nOn."));
}

TEST_CASE("a marked last message without a generation prompt is kept but for its last token") {
  const auto prompt = encode("[" + message("user", "\"One.\"", kMark) + "]", false);
  REQUIRE(prompt.ok());
  const auto& last = prompt->structure.back();
  CHECK(last.kind == StateKind::pinned);
  CHECK(last.position == static_cast<std::int32_t>(prompt->tokens.size()) - 1);
}

TEST_CASE("a mark of the wrong shape, or one too many, is refused and named") {
  const auto refused = [](const std::string& messages, const std::string& param) {
    const auto prompt = encode(messages);
    CAPTURE(messages.substr(0, 100));
    REQUIRE_FALSE(prompt.ok());
    CHECK(prompt.error().code == ErrorCode::bad_request);
    CHECK(prompt.error().param == param);
    CHECK(prompt.error().message.find(param) == 0);
  };
  for (const char* wrong : {"true", "\"ephemeral\"", "{}", "[]", R"({"type":"forever"})",
                            R"({"type":null})", R"({"type":["ephemeral"]})"}) {
    const std::string mark = std::string("\"cache_control\":") + wrong;
    refused("[" + message("user", "\"x\"", mark.c_str()) + "]", "messages[0].cache_control");
    refused("[" + message("user", "\"x\"") + "," +
                message("user",
                        R"([{"type":"text","text":"a"},{"type":"text","text":"b",)" + mark + "}]") +
                "]",
            "messages[1].content[1].cache_control");
  }
  refused("[" + message("user", "\"x\"", R"("cache_control":{"type":"ephemeral","ttl":5})") + "]",
          "messages[0].cache_control.ttl");
  std::string many = "[" + message("user", "\"x\"", kMark);
  for (int i = 0; i < 15; ++i) many += "," + message("user", "\"x\"", kMark);
  CHECK(encode(many + "]").ok());
  refused(many + "," + message("user", "\"x\"", kMark) + "]", "messages[16].cache_control");
  CHECK(encode("[" +
               message("user", "\"x\"", R"("cache_control":{"type":"ephemeral","ttl":"1h"})") + "]")
            .ok());
  CHECK(encode("[" + message("user", "\"x\"", R"("cache_control":null)") + "]").ok());
}

TEST_CASE("signs are characters that the chat does not have") {
  std::string text = "x";
  for (int last = 0x90; last <= 0xAD; ++last) text += {'\xEF', '\xB7', static_cast<char>(last)};
  const auto signs = engine::unused_signs(text);
  REQUIRE(signs);
  CHECK(signs->part == "\xEF\xB7\xAE");
  CHECK(signs->message == "\xEF\xB7\xAF");
  CHECK_FALSE(engine::unused_signs(text + signs->part));
  // Then nothing is marked and the request is served all the same.
  const auto prompt = encode("[" + message("user", "\"" + text + signs->part + "\"", kMark) + "]");
  REQUIRE(prompt.ok());
  CHECK(before_marks(*prompt).empty());
}

TEST_CASE(
    "where a template trims or drops text before a sign the place is where both still agree") {
  const engine::MarkSigns signs{"#", "@"};
  using Places = std::vector<std::size_t>;
  // "a  " is trimmed to "a" unless a sign ends it.
  CHECK(engine::marked_bytes(rendered("<a><b>", {0, 3}), "<a  #><b>", signs) == Places{2});
  CHECK(engine::marked_bytes(rendered("<a><b>", {0, 3}), "<a  @><b>", signs) == Places{3});
  // The marked message is not rendered at all.
  CHECK(engine::marked_bytes(rendered("<a><b>", {0, 3}), "<a><b>", signs).empty());
  // A message that turned out longer with a sign.
  CHECK(engine::marked_bytes(rendered("<a><b>", {0, 3}), "<@more a><b#>", signs) == Places{3, 5});
  // Nothing agrees.
  CHECK(engine::marked_bytes(rendered("<a>", {0}), "###", signs) == Places{0, 0, 0});
}

TEST_CASE("marked positions of text and of ids become points, the last token left to compute") {
  const std::vector<std::int32_t> marks{3, 1, 4, 3};
  const auto prompt =
      engine::encode_prompt(demo_bundle(), std::vector<std::int32_t>{5, 6, 7, 8}, marks);
  REQUIRE(prompt.ok());
  REQUIRE(prompt->structure.size() == 2);
  CHECK(prompt->structure[0].position == 1);
  CHECK(prompt->structure[1].position == 3);
  for (const auto& point : prompt->structure) CHECK(point.kind == StateKind::pinned);
  const std::vector<std::int32_t> beyond{2, 500};
  const auto text = engine::encode_prompt(demo_bundle(), TextPrompt{"Once upon a time"}, beyond);
  REQUIRE_FALSE(text.ok());
  CHECK(text.error().param == "cache_positions");
  CHECK(text.error().message.find("500") != std::string::npos);
}
