// SPDX-License-Identifier: Apache-2.0
#include "engine/request/openai_objects.hpp"

#include <algorithm>

namespace cairn::engine::openai {
namespace {

void string_or_null(JsonWriter& json, std::string_view text) {
  text.empty() ? json.null() : json.string(text);
}

void write_model(JsonWriter& json, std::string_view id, const ModelFacts& facts) {
  json.begin_object().key("id").string(id).key("object").string("model");
  json.key("created").integer(facts.created).key("owned_by").string("cairn");
  json.key("max_model_len").integer(facts.context_length);
  json.key("vocab_size").integer(facts.vocab_size).end_object();
}

}  // namespace

ErrorShape shape_of(const Error& error) {
  constexpr std::string_view kInvalid = "invalid_request_error";
  switch (error.code) {
    case ErrorCode::bad_request:
      return {400, kInvalid, ""};
    case ErrorCode::context_overflow:
      return {400, kInvalid, "context_length_exceeded"};
    case ErrorCode::no_memory:
      return {400, kInvalid, "insufficient_memory"};
    case ErrorCode::unsupported:
      return {400, kInvalid, "unsupported_value"};
    case ErrorCode::not_found:
      return {404, kInvalid, error.param == "model" ? "model_not_found" : "not_found"};
    case ErrorCode::queue_full:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case ErrorCode::cancelled:
      return {503, "server_error", "cancelled"};
    case ErrorCode::deadline:
      return {504, "server_error", "deadline_exceeded"};
    case ErrorCode::unavailable:
      return {503, "server_error", "service_unavailable"};
    case ErrorCode::internal:
      break;
  }
  return {500, "server_error", "internal_error"};
}

std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                       std::string_view code) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").string(message).key("type").string(type);
  string_or_null(json.key("param"), param);
  string_or_null(json.key("code"), code);
  json.end_object().end_object();
  return json.take();
}

std::string error_body(const Error& error) {
  const auto shape = shape_of(error);
  return error_body(error.message, shape.type, error.param, shape.code);
}

Usage add_usage(const Usage& a, const Usage& b) {
  Usage sum = a;
  sum.prompt_tokens += b.prompt_tokens;
  sum.completion_tokens += b.completion_tokens;
  sum.cached_tokens += b.cached_tokens;
  sum.queue_seconds = std::max(a.queue_seconds, b.queue_seconds);
  sum.prefill_seconds += b.prefill_seconds;
  sum.decode_seconds = std::max(a.decode_seconds, b.decode_seconds);
  sum.first_token_seconds = std::max(a.first_token_seconds, b.first_token_seconds);
  sum.total_seconds = std::max(a.total_seconds, b.total_seconds);
  return sum;
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.begin_object();
  json.key("prompt_tokens").integer(usage.prompt_tokens);
  json.key("completion_tokens").integer(usage.completion_tokens);
  json.key("total_tokens")
      .integer(static_cast<std::int64_t>(usage.prompt_tokens) + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object();
  json.key("cached_tokens").integer(std::min(usage.cached_tokens, usage.prompt_tokens));
  json.end_object().end_object();
}

void write_timings(JsonWriter& json, const Usage& usage) {
  const std::int32_t computed = usage.prompt_tokens - usage.cached_tokens;
  const auto rate = [](double tokens, double seconds) {
    return seconds > 0 ? tokens / seconds : 0;
  };
  json.begin_object();
  json.key("seed").unsigned_integer(usage.seed);
  json.key("cache_n").integer(usage.cached_tokens);
  json.key("prompt_n").integer(computed);
  json.key("prompt_ms").number(usage.prefill_seconds * 1e3);
  json.key("prompt_per_second").number(rate(computed, usage.prefill_seconds));
  json.key("predicted_n").integer(usage.completion_tokens);
  json.key("predicted_ms").number(usage.decode_seconds * 1e3);
  json.key("predicted_per_second").number(rate(usage.completion_tokens, usage.decode_seconds));
  json.key("queue_ms").number(usage.queue_seconds * 1e3);
  json.key("first_token_ms").number(usage.first_token_seconds * 1e3);
  json.key("total_ms").number(usage.total_seconds * 1e3);
  json.end_object();
}

std::string model_body(std::string_view id, const ModelFacts& facts) {
  JsonWriter json;
  write_model(json, id, facts);
  return json.take();
}

std::string models_body(const std::vector<std::string>& ids, const ModelFacts& facts) {
  JsonWriter json;
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const auto& id : ids) write_model(json, id, facts);
  json.end_array().end_object();
  return json.take();
}

std::string tokenize_body(std::span<const std::int32_t> tokens, std::int32_t context_length) {
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const auto id : tokens) json.integer(id);
  json.end_array().key("count").integer(std::ssize(tokens));
  json.key("max_model_len").integer(context_length).end_object();
  return json.take();
}

std::string detokenize_body(std::string_view text) {
  JsonWriter json;
  json.begin_object().key("content").string(text).key("prompt").string(text).end_object();
  return json.take();
}

}  // namespace cairn::engine::openai
