// SPDX-License-Identifier: Apache-2.0
#include "engine/request/openai_parse.hpp"

#include <algorithm>
#include <charconv>

#include "base/quote.hpp"
#include "engine/request/openai_fields.hpp"
#include "engine/request/openai_messages.hpp"

namespace cairn::engine::openai {
namespace {

using json::Kind;
using json::Value;

constexpr std::int32_t kDefaultCompletionTokens = 16;  // what the API documents for /v1/completions
constexpr std::string_view kNoGrammars = "answers cannot be constrained";

// A value costs far more memory than its bytes, so their number is bounded before any is built.
std::size_t count_values(std::string_view body) {
  std::size_t count = 0;
  bool inside_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (inside_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      inside_string = !inside_string;
    } else if (!inside_string && (c == ',' || c == '[' || c == '{')) {
      ++count;
    }
  }
  return count;
}

Result<Value> parse_object(std::string_view body, const BodyLimits& limits) {
  if (count_values(body) > limits.max_values)
    return bad_field("",
                     "The body has more than " + std::to_string(limits.max_values) + " values.");
  auto value = json::parse(body);
  if (!value) return bad_field("", "The body is not valid JSON: " + value.error().message + ".");
  if (!value->is(Kind::object))
    return bad_field("",
                     "The body must be a JSON object, not " + std::string(kind_name(*value)) + ".");
  return value;
}

void read_max_tokens(Fields& fields, GenerateRequest& request) {
  const auto old_name = fields.integer("max_tokens");
  const auto new_name = fields.integer("max_completion_tokens");
  if (old_name && new_name && *old_name != *new_name)
    fields.fail(bad_field("max_completion_tokens",
                          "max_tokens and max_completion_tokens are both set and differ."));
  request.max_tokens = new_name ? new_name : old_name;
}

void read_logit_bias(Fields& fields, Sampling& sampling) {
  const Value* bias = fields.object("logit_bias");
  if (!bias) return;
  for (const auto& [key, value] : bias->members()) {
    std::int32_t id = 0;
    const char* end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, id);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !value.is(Kind::number)) {
      fields.fail(bad_field(
          "logit_bias", "logit_bias must map token ids to numbers; " + quoted(key) + " does not."));
      return;
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(value.as_double()));
  }
}

void read_sampling(Fields& fields, Sampling& sampling) {
  sampling.temperature = fields.real("temperature");
  sampling.top_p = fields.real("top_p");
  sampling.top_k = fields.integer("top_k");
  if (sampling.top_k == -1) sampling.top_k = 0;  // other servers' spelling of "all"
  sampling.min_p = fields.real("min_p");
  sampling.repetition_penalty = fields.real("repetition_penalty");
  sampling.presence_penalty = fields.real("presence_penalty");
  sampling.frequency_penalty = fields.real("frequency_penalty");
  sampling.seed = fields.seed("seed");
  read_logit_bias(fields, sampling);
}

void read_response_format(Fields& fields) {
  const Value* format = fields.object("response_format");
  if (!format) return;
  Fields inner(*format, "response_format.");
  const auto type = inner.string("type");
  if (inner.error()) fields.fail(*inner.error());
  if (!type)
    fields.fail(bad_field("response_format.type", "response_format.type must be a string."));
  else if (*type != "text")
    fields.fail(unsupported_field("response_format", "response_format " + quoted(*type) +
                                                         " is not supported: only 'text' is."));
}

constexpr std::int32_t kMostChoices = 128;

// What both end points share.
void read_common(Fields& fields, GenerateRequest& request, ResponseSettings& settings) {
  settings.model = fields.string("model").value_or("");
  settings.stream = fields.boolean("stream").value_or(false);
  settings.token_ids = fields.boolean("return_token_ids").value_or(false);
  if (const Value* options = fields.object("stream_options")) {
    Fields inner(*options, "stream_options.");
    settings.include_usage = inner.boolean("include_usage").value_or(false);
    if (inner.error()) fields.fail(*inner.error());
  }
  request.n = fields.integer("n").value_or(1);
  // Answers are made room for by this number before the engine's own limit is asked.
  if (request.n < 1 || request.n > kMostChoices) {
    fields.fail(Error{ErrorCode::bad_request,
                      "n must be from 1 to " + std::to_string(kMostChoices) + ", not " +
                          std::to_string(request.n) + ".",
                      "n"});
    request.n = 1;
  }
  settings.n = request.n;
  const auto best_of = fields.integer("best_of");
  if (best_of && *best_of != request.n)
    fields.fail(unsupported_field("best_of", "best_of other than n is not supported."));
  read_max_tokens(fields, request);
  read_sampling(fields, request.sampling);
  read_response_format(fields);
  request.stop = fields.strings("stop");
  request.stop_token_ids = fields.integers("stop_token_ids");
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.use_cache = fields.boolean("cache_prompt").value_or(true);
  request.cache_salt = fields.string("cache_salt").value_or("");
  fields.refuse({"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                 "structured_outputs", "grammar", "json_schema"},
                kNoGrammars);
  fields.refuse({"use_beam_search"}, "answers are sampled");
}

void read_chat_logprobs(Fields& fields, GenerateRequest& request, ResponseSettings& settings) {
  settings.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs");
  if (settings.logprobs) {
    request.logprobs = top.value_or(0);
    if (request.logprobs < 0)
      fields.fail(bad_field("top_logprobs", "top_logprobs must be at least 0."));
  } else if (top && *top != 0) {
    fields.fail(bad_field("top_logprobs", "top_logprobs needs logprobs to be true."));
  }
}

void refuse_chat_extras(Fields& fields) {
  const Value* call = fields.get("function_call");
  if (call && !(call->is(Kind::string) && (call->text() == "none" || call->text() == "auto")))
    fields.refuse({"function_call"}, "use tools");
  fields.refuse({"functions"}, "use tools");
  fields.refuse({"audio", "web_search_options"}, "this model reads and writes text only");
  fields.refuse({"continue_final_message", "echo", "prompt_logprobs"}, "use /v1/completions");
  fields.refuse({"cache_positions"}, "mark messages with cache_control");
  const Value* modalities = fields.array("modalities");
  if (!modalities) return;
  for (const auto& item : modalities->items())
    if (!item.is(Kind::string) || item.text() != "text")
      fields.fail(unsupported_field("modalities", "Only the modality 'text' is supported."));
}

std::optional<std::vector<std::int32_t>> token_ids(const Value& array) {
  std::vector<std::int32_t> ids;
  ids.reserve(array.items().size());
  for (const auto& item : array.items()) {
    const auto id = to_int32(item);
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

std::optional<Prompt> single_prompt(const Value& value, bool parse_special) {
  if (value.is(Kind::string)) return TextPrompt{value.text(), parse_special};
  if (!value.is(Kind::array) || value.items().empty()) return std::nullopt;
  auto ids = token_ids(value);
  if (!ids) return std::nullopt;
  return Prompt(std::move(*ids));
}

// "text", [1, 2], ["text", "text"] or [[1, 2], [3]].
std::vector<Prompt> read_prompts(Fields& fields, const BodyLimits& limits) {
  const bool parse_special = fields.boolean("parse_special").value_or(false);
  const Value* value = fields.get("prompt");
  if (!value) {
    fields.fail(bad_field("prompt", "prompt is missing."));
    return {};
  }
  if (auto one = single_prompt(*value, parse_special)) return {std::move(*one)};
  std::vector<Prompt> prompts;
  if (value->items().size() > limits.max_prompts) {
    fields.fail(bad_field(
        "prompt", "prompt may hold at most " + std::to_string(limits.max_prompts) + " prompts."));
    return {};
  }
  for (const auto& item : value->items())
    if (auto one = single_prompt(item, parse_special)) prompts.push_back(std::move(*one));
  if (prompts.empty() || prompts.size() != value->items().size())
    fields.fail(
        bad_field("prompt",
                  "prompt must be a string, an array of token ids, or an array of these, none of "
                  "them an empty array."));
  return prompts;
}

void read_completion_logprobs(Fields& fields, GenerateRequest& request,
                              ResponseSettings& settings) {
  if (const auto count = fields.integer("logprobs")) {
    request.logprobs = *count;
    if (*count < 0) fields.fail(bad_field("logprobs", "logprobs must be at least 0."));
  }
  settings.logprobs = request.logprobs >= 0;
  request.echo = fields.boolean("echo").value_or(false);
  request.prompt_logprobs = request.echo && settings.logprobs;
}

}  // namespace

Result<ParsedRequest> parse_chat(std::string_view body, const BodyLimits& limits) {
  const auto document = parse_object(body, limits);
  if (!document) return document.error();
  Fields fields(*document);
  ParsedRequest parsed;
  GenerateRequest& request = parsed.requests.emplace_back();
  request.endpoint = "chat";
  request.prompt = read_chat_prompt(fields);
  read_common(fields, request, parsed.settings);
  read_chat_logprobs(fields, request, parsed.settings);
  refuse_chat_extras(fields);
  if (fields.error()) return *fields.error();
  return parsed;
}

Result<ParsedRequest> parse_completion(std::string_view body, const BodyLimits& limits) {
  const auto document = parse_object(body, limits);
  if (!document) return document.error();
  Fields fields(*document);
  ParsedRequest parsed;
  parsed.settings.chat = false;
  GenerateRequest request;
  request.endpoint = "completions";
  auto prompts = read_prompts(fields, limits);
  read_common(fields, request, parsed.settings);
  read_completion_logprobs(fields, request, parsed.settings);
  request.cache_positions = fields.integers("cache_positions");
  if (!request.max_tokens) request.max_tokens = kDefaultCompletionTokens;
  fields.refuse({"suffix"}, "this model does not fill in the middle");
  if (fields.error()) return *fields.error();
  for (auto& prompt : prompts) {
    parsed.requests.push_back(request);
    parsed.requests.back().prompt = std::move(prompt);
  }
  return parsed;
}

Result<TokenizeRequest> parse_tokenize(std::string_view body, const BodyLimits& limits) {
  const auto document = parse_object(body, limits);
  if (!document) return document.error();
  Fields fields(*document);
  TokenizeRequest parsed;
  parsed.model = fields.string("model").value_or("");
  if (fields.get("messages")) {
    parsed.prompt = read_chat_prompt(fields);
  } else {
    auto text = fields.string("content");
    if (!text) text = fields.string("prompt");
    if (!text) fields.fail(bad_field("content", "content (or prompt, or messages) is missing."));
    parsed.prompt = TextPrompt{text.value_or(""), fields.boolean("parse_special").value_or(false)};
  }
  if (fields.error()) return *fields.error();
  return parsed;
}

Result<DetokenizeRequest> parse_detokenize(std::string_view body, const BodyLimits& limits) {
  const auto document = parse_object(body, limits);
  if (!document) return document.error();
  Fields fields(*document);
  DetokenizeRequest parsed;
  parsed.model = fields.string("model").value_or("");
  parsed.skip_special = fields.boolean("skip_special_tokens").value_or(false);
  if (!fields.get("tokens")) fields.fail(bad_field("tokens", "tokens is missing."));
  parsed.tokens = fields.integers("tokens");
  if (fields.error()) return *fields.error();
  return parsed;
}

}  // namespace cairn::engine::openai
