// SPDX-License-Identifier: Apache-2.0
#include "engine/request/prompt.hpp"

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "engine/request/validate.hpp"

namespace cairn::engine {
namespace {

Error bad(std::string message, std::string param) {
  return Error{ErrorCode::bad_request, std::move(message), std::move(param)};
}

Result<EncodedPrompt> encode_ids(const ModelBundle& bundle, const std::vector<std::int32_t>& ids) {
  const std::int32_t rows = model::config_of(*bundle.weights).vocab_size;
  if (const Status valid = check_prompt_ids(ids, rows); !valid.ok()) return valid.error();
  EncodedPrompt out;
  out.tokens = ids;
  if (bundle.tokenizer) out.text = bundle.tokenizer->decode(ids, false);  // what an echo shows
  return out;
}

Error no_tokenizer() {
  return Error{ErrorCode::unsupported,
               "this model was loaded without a tokenizer: only prompts of token ids are served",
               "prompt"};
}

Result<EncodedPrompt> encode_text(const ModelBundle& bundle, const TextPrompt& prompt) {
  if (!bundle.tokenizer) return no_tokenizer();
  EncodedPrompt out;
  out.tokens = bundle.tokenizer->encode(prompt.text, prompt.parse_special);
  out.text = prompt.text;
  return out;
}

Result<json::Value> parse_field(const std::string& text, json::Kind kind, const char* expected,
                                const char* param) {
  auto value = json::parse(text);
  if (!value.ok()) return bad(std::string(param) + ": " + value.error().message, param);
  if (!value->is(kind)) {
    return bad(std::string(param) + ": expected " + expected, param);
  }
  return value;
}

// Positions of message starts and of the generation prompt, as numbers of tokens before them.
std::vector<StructuralPoint> structure_of(const text::RenderedChat& chat,
                                          const text::TokenMap& map) {
  std::vector<StructuralPoint> points;
  const auto add = [&](std::size_t byte) {
    const auto position = static_cast<std::int32_t>(map.tokens_before_edge(byte));
    if (position <= 0 || (!points.empty() && points.back().position >= position)) return;
    points.push_back({position, StateKind::turn});
  };
  for (const std::size_t byte : chat.message_starts) add(byte);
  add(chat.generation_prompt);
  return points;
}

Result<text::RenderedChat> render(const ModelBundle& bundle, const ChatPrompt& prompt) {
  if (!bundle.tokenizer) return no_tokenizer();
  if (!bundle.chat_template) {
    return Error{ErrorCode::unsupported,
                 "this model has no chat template: use /v1/completions, or add "
                 "chat_template.jinja to its directory",
                 "messages"};
  }
  auto messages =
      parse_field(prompt.messages_json, json::Kind::array, "an array of messages", "messages");
  if (!messages.ok()) return messages.error();
  auto normal = text::normalise_messages(*messages);
  if (!normal.ok()) return normal.error();
  json::Value tools;
  if (!prompt.tools_json.empty()) {
    auto parsed = parse_field(prompt.tools_json, json::Kind::array, "an array of tools", "tools");
    if (!parsed.ok()) return parsed.error();
    tools = parsed.take();
  }
  text::RenderOptions options;
  options.add_generation_prompt = prompt.add_generation_prompt;
  options.enable_thinking = prompt.enable_thinking;
  if (!prompt.template_kwargs_json.empty()) {
    auto extra = parse_field(prompt.template_kwargs_json, json::Kind::object, "an object",
                             "chat_template_kwargs");
    if (!extra.ok()) return extra.error();
    options.extra = extra.take();
  }
  auto chat = bundle.chat_template->render(
      *normal, tools.is(json::Kind::array) && !tools.items().empty() ? &tools : nullptr, options);
  if (!chat.ok()) {
    Error error = chat.error();
    if (error.param.empty()) error.param = "messages";
    return error;
  }
  return chat;
}

Result<EncodedPrompt> encode_chat(const ModelBundle& bundle, const ChatPrompt& prompt) {
  auto chat = render(bundle, prompt);
  if (!chat.ok()) return chat.error();
  text::TokenMap map;
  EncodedPrompt out;
  out.tokens = bundle.tokenizer->encode_segments(text::prompt_segments(*chat), &map);
  out.structure = structure_of(*chat, map);
  out.text = std::move(chat->text);
  return out;
}

}  // namespace

Result<EncodedPrompt> encode_prompt(const ModelBundle& bundle, const Prompt& prompt) {
  auto encoded = [&]() -> Result<EncodedPrompt> {
    if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) {
      return encode_ids(bundle, *ids);
    }
    if (const auto* text = std::get_if<TextPrompt>(&prompt)) return encode_text(bundle, *text);
    return encode_chat(bundle, std::get<ChatPrompt>(prompt));
  }();
  if (encoded.ok() && encoded->tokens.empty()) return empty_prompt();
  return encoded;
}

}  // namespace cairn::engine
