// SPDX-License-Identifier: Apache-2.0
// The small objects of the OpenAI API: errors, usage, models, token lists.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "base/result.hpp"
#include "engine/engine.hpp"

namespace cairn::engine::openai {

/// How an error looks from outside.
struct ErrorShape {
  int status = 500;       // HTTP
  std::string_view type;  // "invalid_request_error"
  std::string_view code;  // "context_length_exceeded"
};
ErrorShape shape_of(const Error& error);

/// {"error": {"message", "type", "param", "code"}}; empty param and code are null.
std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                       std::string_view code);
std::string error_body(const Error& error);

/// Sums over the prompts of one answer.
Usage add_usage(const Usage& a, const Usage& b);
/// {"prompt_tokens", ..., "prompt_tokens_details": {"cached_tokens"}}.
void write_usage(JsonWriter& json, const Usage& usage);
/// What the request cost and the seed that repeats it; an extension.
void write_timings(JsonWriter& json, const Usage& usage);

/// What a client may need to know before its first request.
struct ModelFacts {
  std::int64_t created = 0;  // Unix time
  std::int32_t context_length = 0;
  std::int32_t vocab_size = 0;  // ids of a prompt are below
};
std::string model_body(std::string_view id, const ModelFacts& facts);
/// The list that /v1/models gives.
std::string models_body(const std::vector<std::string>& ids, const ModelFacts& facts);

std::string tokenize_body(std::span<const std::int32_t> tokens, std::int32_t context_length);
std::string detokenize_body(std::string_view text);

}  // namespace cairn::engine::openai
