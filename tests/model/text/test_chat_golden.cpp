// SPDX-License-Identifier: Apache-2.0
// The demo template against the conversations of the model family, in the small and the large form.
#include "tests/model/text/test_chat_support.hpp"

using namespace cairn;
using namespace cairn::text;
using namespace cairn::text::testing;

namespace {

ChatTemplate make_template(bool thinking_default) {
  ChatTemplateOptions options;
  options.defaults = parse_json(thinking_default ? R"({"thinking_default": true})" : "{}");
  return ChatTemplate(demo_template(), options);
}

json::Value golden() { return parse_json(read_text(CAIRN_FIXTURES "/chat/golden.json")); }

Result<RenderedChat> render(const ChatTemplate& chat, const json::Value& input) {
  RenderOptions options;
  const json::Value* add = input.find("add_generation_prompt");
  options.add_generation_prompt = add != nullptr && add->as_bool();
  if (const json::Value* thinking = input.find("enable_thinking"))
    options.enable_thinking = thinking->as_bool();
  return chat.render(*input.find("messages"), input.find("tools"), options);
}

}  // namespace

TEST_CASE("every golden conversation renders byte for byte in both forms") {
  const json::Value file = golden();
  REQUIRE(file.find("cases")->members().size() == 15);
  for (const bool large : {false, true}) {
    const ChatTemplate chat = make_template(large);
    for (const auto& [name, example] : file.find("cases")->members()) {
      INFO(name << (large ? " large" : " small"));
      const json::Value& input = *example.find("input");
      const auto rendered = render(chat, input);
      if (!rendered.ok()) FAIL(rendered.error().message);
      CHECK(rendered->text == example.find(large ? "large" : "small")->text());
      check_segments(*rendered);
      const bool prompted = input.find("add_generation_prompt")->as_bool();
      const std::string tail = rendered->text.substr(rendered->generation_prompt);
      CHECK(tail.substr(0, 22) == (prompted ? "<|im_start|>assistant\n" : ""));
      if (prompted) CHECK(rendered->message_starts.back() == rendered->generation_prompt);
    }
  }
}

TEST_CASE("the golden mistakes are refused with the template's own words") {
  const json::Value file = golden();
  const ChatTemplate chat = make_template(false);
  REQUIRE(file.find("errors")->members().size() == 5);
  for (const auto& [name, example] : file.find("errors")->members()) {
    INFO(name);
    const auto rendered = render(chat, *example.find("input"));
    REQUIRE_FALSE(rendered.ok());
    CHECK(rendered.error().code == ErrorCode::bad_request);
    const std::string& message = rendered.error().message;
    const std::string& wanted = example.find("error")->text();
    CHECK(message.size() >= wanted.size());
    CHECK(message.substr(message.size() - std::min(message.size(), wanted.size())) == wanted);
  }
}

TEST_CASE("the next turn repeats everything before the generation prompt") {
  const ChatTemplate chat = make_template(false);
  const auto one = chat.render(parse_json(R"([{"role":"user","content":"Hi"}])"), nullptr);
  const auto two = chat.render(
      parse_json(
          R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"},{"role":"user","content":"Bye"}])"),
      nullptr);
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK(two->text.substr(0, one->generation_prompt) == one->text.substr(0, one->generation_prompt));
  CHECK(two->text.substr(0, one->text.size()) != one->text);
  CHECK(two->message_starts.size() == 4);
}
