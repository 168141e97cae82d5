// SPDX-License-Identifier: Apache-2.0
#include "engine/request/prompt.hpp"

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "engine/request/cache_marks.hpp"
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

// Of two points on one position the surer kind names it.
void order(std::vector<StructuralPoint>& points) {
  std::sort(points.begin(), points.end(), [](const StructuralPoint& x, const StructuralPoint& y) {
    return x.position != y.position ? x.position < y.position : rank(x.kind) < rank(y.kind);
  });
  const auto same = [](const StructuralPoint& x, const StructuralPoint& y) {
    return x.position == y.position;
  };
  points.erase(std::unique(points.begin(), points.end(), same), points.end());
}

// Message starts, the generation prompt and what the client marked, as numbers of tokens before
// them, in no order.
std::vector<StructuralPoint> structure_of(const text::RenderedChat& chat,
                                          const std::vector<std::size_t>& marked,
                                          const text::TokenMap& map) {
  std::vector<StructuralPoint> points;
  const auto add = [&](std::size_t byte, StateKind kind) {
    const auto position = static_cast<std::int32_t>(map.tokens_before_edge(byte));
    points.push_back({position, kind});
  };
  for (const std::size_t byte : chat.message_starts) add(byte, StateKind::turn);
  add(chat.generation_prompt, StateKind::turn);
  for (const std::size_t byte : marked) add(byte, StateKind::pinned);
  return points;
}

/// A chat's fields, parsed.
struct ChatInput {
  json::Value messages;  // as they came
  json::Value tools;     // an array or null
  text::RenderOptions options;
};

Result<ChatInput> read_chat(const ChatPrompt& prompt) {
  ChatInput input;
  auto messages =
      parse_field(prompt.messages_json, json::Kind::array, "an array of messages", "messages");
  if (!messages.ok()) return messages.error();
  input.messages = messages.take();
  if (!prompt.tools_json.empty()) {
    auto parsed = parse_field(prompt.tools_json, json::Kind::array, "an array of tools", "tools");
    if (!parsed.ok()) return parsed.error();
    input.tools = parsed.take();
  }
  input.options.add_generation_prompt = prompt.add_generation_prompt;
  input.options.enable_thinking = prompt.enable_thinking;
  if (!prompt.template_kwargs_json.empty()) {
    auto extra = parse_field(prompt.template_kwargs_json, json::Kind::object, "an object",
                             "chat_template_kwargs");
    if (!extra.ok()) return extra.error();
    input.options.extra = extra.take();
  }
  return input;
}

Result<text::RenderedChat> render(const ModelBundle& bundle, const ChatInput& input,
                                  const json::Value& messages) {
  auto normal = text::normalise_messages(messages);
  if (!normal.ok()) return normal.error();
  auto chat = bundle.chat_template->render(
      *normal, input.tools.items().empty() ? nullptr : &input.tools, input.options);
  if (!chat.ok()) {
    Error error = chat.error();
    if (error.param.empty()) error.param = "messages";
    return error;
  }
  return chat;
}

// Where the client's marks are in the rendered chat. A mark that cannot be found is no error: what
// it asks for is speed.
Result<std::vector<std::size_t>> find_marks(const ModelBundle& bundle, const ChatInput& input,
                                            const text::RenderedChat& chat) {
  const auto marks = count_marks(input.messages);
  if (!marks.ok()) return marks.error();
  if (*marks == 0) return std::vector<std::size_t>{};
  const auto signs = unused_signs(chat.text);
  if (!signs) return std::vector<std::size_t>{};
  const auto with = render(bundle, input, with_signs(input.messages, *signs));
  if (!with.ok()) return std::vector<std::size_t>{};
  return marked_bytes(chat, with->text, *signs);
}

Result<EncodedPrompt> encode_chat(const ModelBundle& bundle, const ChatPrompt& prompt) {
  if (!bundle.tokenizer) return no_tokenizer();
  if (!bundle.chat_template) {
    return Error{ErrorCode::unsupported,
                 "this model has no chat template: use /v1/completions, or add "
                 "chat_template.jinja to its directory",
                 "messages"};
  }
  const auto input = read_chat(prompt);
  if (!input.ok()) return input.error();
  auto chat = render(bundle, *input, input->messages);
  if (!chat.ok()) return chat.error();
  const auto marked = find_marks(bundle, *input, *chat);
  if (!marked.ok()) return marked.error();
  text::TokenMap map;
  EncodedPrompt out;
  out.tokens = bundle.tokenizer->encode_segments(text::prompt_segments(*chat), &map);
  out.structure = structure_of(*chat, *marked, map);
  out.text = std::move(chat->text);
  return out;
}

}  // namespace

Result<EncodedPrompt> encode_prompt(const ModelBundle& bundle, const Prompt& prompt,
                                    std::span<const std::int32_t> marks) {
  auto encoded = [&]() -> Result<EncodedPrompt> {
    if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) {
      return encode_ids(bundle, *ids);
    }
    if (const auto* text = std::get_if<TextPrompt>(&prompt)) return encode_text(bundle, *text);
    return encode_chat(bundle, std::get<ChatPrompt>(prompt));
  }();
  if (!encoded.ok()) return encoded;
  if (encoded->tokens.empty()) return empty_prompt();
  const auto length = static_cast<std::int32_t>(encoded->tokens.size());
  if (const Status valid = check_cache_positions(marks, length); !valid.ok()) return valid.error();
  for (const std::int32_t position : marks) {
    encoded->structure.push_back({position, StateKind::pinned});
  }
  // One token is always left to compute.
  for (StructuralPoint& point : encoded->structure) {
    point.position = std::min(point.position, length - 1);
  }
  order(encoded->structure);
  std::erase_if(encoded->structure, [](const StructuralPoint& p) { return p.position < 1; });
  return encoded;
}

}  // namespace cairn::engine
