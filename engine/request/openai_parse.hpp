// SPDX-License-Identifier: Apache-2.0
// Bodies of the OpenAI API as requests to the engine. Unknown fields are ignored unless ignoring
// them would change what the answer means; those are refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

namespace cairn::engine::openai {

/// Bounds of what a body may make us build; bytes are bounded before.
struct BodyLimits {
  std::size_t max_prompts = 64;        // of one completions request
  std::size_t max_values = 1'000'000;  // commas and brackets of the JSON, token ids included
};

/// What the answer should look like; the engine need not know.
struct ResponseSettings {
  bool chat = true;
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage
  bool logprobs = false;
  bool token_ids = false;  // the answer's tokens beside its text
  std::int32_t n = 1;      // choices of each prompt
  std::string model;       // as asked, "" when not
};

struct ParsedRequest {
  std::vector<GenerateRequest> requests;  // one a prompt; a chat is one
  ResponseSettings settings;
};

Result<ParsedRequest> parse_chat(std::string_view body, const BodyLimits& limits = {});
Result<ParsedRequest> parse_completion(std::string_view body, const BodyLimits& limits = {});

struct TokenizeRequest {
  Prompt prompt;  // text from "content" or "prompt", or a chat from "messages"
  std::string model;
};
Result<TokenizeRequest> parse_tokenize(std::string_view body, const BodyLimits& limits = {});

struct DetokenizeRequest {
  std::vector<std::int32_t> tokens;
  bool skip_special = false;
  std::string model;
};
Result<DetokenizeRequest> parse_detokenize(std::string_view body, const BodyLimits& limits = {});

}  // namespace cairn::engine::openai
