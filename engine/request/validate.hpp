// SPDX-License-Identifier: Apache-2.0
// What a request may ask for. Everything a client can get wrong besides the JSON around it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/engine.hpp"

namespace cairn::engine {

struct RequestLimits {
  std::int32_t vocab_size = 0;      // ids must be below
  std::int32_t context_length = 0;  // prompt + answer
  std::int32_t max_choices = 16;
  std::int32_t max_logprobs = 20;
  std::int32_t max_stop_strings = 16;
  std::int32_t max_stop_bytes = 4096;  // of one string
  std::int32_t max_stop_tokens = 1024;
  std::int32_t max_cache_salt_bytes = 256;
  bool client_key_needed = false;
  std::int32_t max_logit_bias = 4096;  // entries
  // Entries of a prompt's log-probs, (1 + top) a token, repeated for each choice.
  std::int64_t max_prompt_logprobs = 262'144;
};

/// The first thing that is wrong with the request, in the terms of the API (param names the field);
/// ok when nothing is. Looks at a prompt only when it is given as ids: text is checked by
/// answer_room once it is tokenized.
Status validate(const GenerateRequest& request, const RequestLimits& limits);

/// Whether log-probs of a prompt of so many tokens, with `logprobs` alternatives each, may be asked
/// for. For ids validate() says so; text is counted once it is tokenized.
Status check_prompt_logprobs(std::int64_t prompt_tokens, std::int32_t logprobs,
                             const RequestLimits& limits, std::int32_t choices = 1);

/// The error names the first id outside [0, vocab_size) and its index.
Status check_prompt_ids(std::span<const std::int32_t> ids, std::int32_t vocab_size);
/// Marked positions of a prompt of so many tokens: 1 to that number, at most kMaxCacheMarks.
Status check_cache_positions(std::span<const std::int32_t> positions, std::int32_t prompt_tokens);
Error empty_prompt();

/// The field that a client's prompt came in: "messages" or "prompt".
const char* prompt_field(const Prompt& prompt);

/// How many tokens the answer may have: `max_tokens`, or what the context leaves (at least 1).
/// context_overflow with the usual message, both numbers and the prompt's `field` when prompt and
/// answer do not fit; bad_request when the prompt is empty.
Result<std::int32_t> answer_room(std::int32_t prompt_tokens, std::optional<std::int32_t> max_tokens,
                                 std::int32_t context_length, const char* field = "prompt");

}  // namespace cairn::engine
