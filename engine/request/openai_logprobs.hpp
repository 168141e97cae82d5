// SPDX-License-Identifier: Apache-2.0
// Log-probs in the two schemas of the OpenAI API.
#pragma once

#include <cstdint>
#include <span>

#include "base/json_text.hpp"
#include "engine/engine.hpp"

namespace cairn::engine::openai {

/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}. A token that is
/// half a character shows U+FFFD as text; its bytes are exact.
void write_chat_logprobs(JsonWriter& json, std::span<const TokenInfo> tokens);

/// The older schema. A token that is half a character is spelled "bytes:\xNN...", so that keys
/// differ. `prompt` stands before `tokens`; its first token has no log-prob. `offset` is where the
/// text of both starts, in characters of the whole text; moves on by what was written.
void write_completion_logprobs(JsonWriter& json, std::span<const TokenInfo> prompt,
                               std::span<const TokenInfo> tokens, std::int64_t& offset);

}  // namespace cairn::engine::openai
