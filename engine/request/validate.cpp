// SPDX-License-Identifier: Apache-2.0
#include "engine/request/validate.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/json.hpp"
#include "engine/request/cache_marks.hpp"

namespace cairn::engine {
namespace {

Error bad(std::string param, std::string message) {
  return {ErrorCode::bad_request, std::move(message), std::move(param)};
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

struct Range {
  const char* name;
  double least, most;
  bool least_allowed = true;
};

Status in_range(std::optional<float> value, const Range& range) {
  if (!value) return ok_status();
  const double v = *value;
  const bool low = range.least_allowed ? v >= range.least : v > range.least;
  if (low && v <= range.most) return ok_status();  // false for NaN
  return bad(range.name, std::string(range.name) + " must be " +
                             (range.least_allowed ? "at least " : "above ") + number(range.least) +
                             " and at most " + number(range.most) + ", not " + number(v) + ".");
}

Status count_in_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return ok_status();
  return bad(name, std::string(name) + " must be between " + std::to_string(least) + " and " +
                       std::to_string(most) + ", not " + std::to_string(value) + ".");
}

bool is_id(std::int32_t id, std::int32_t vocab_size) { return id >= 0 && id < vocab_size; }

Error not_an_id(const char* param, const std::string& place, std::int32_t id,
                std::int32_t vocab_size) {
  return bad(param, "Token id " + std::to_string(id) + " in " + place +
                        " is outside the vocabulary of " + std::to_string(vocab_size) + " tokens.");
}

Status check_id(const char* name, std::int32_t id, std::int32_t vocab_size) {
  if (is_id(id, vocab_size)) return ok_status();
  return not_an_id(name, name, id, vocab_size);
}

Status check_sampling(const Sampling& s, const RequestLimits& limits) {
  const std::pair<std::optional<float>, Range> ranges[] = {
      {s.temperature, {"temperature", 0, 100}},
      {s.top_p, {"top_p", 0, 1}},
      {s.min_p, {"min_p", 0, 1}},
      {s.repetition_penalty, {"repetition_penalty", 0, 100, false}},
      {s.presence_penalty, {"presence_penalty", -2, 2}},
      {s.frequency_penalty, {"frequency_penalty", -2, 2}},
  };
  for (const auto& [value, range] : ranges)
    if (auto status = in_range(value, range); !status) return status;
  if (s.top_k && *s.top_k < 0)
    return bad("top_k",
               "top_k must be 0 (all tokens) or more, not " + std::to_string(*s.top_k) + ".");
  if (std::ssize(s.logit_bias) > limits.max_logit_bias)
    return bad("logit_bias", "logit_bias may have at most " +
                                 std::to_string(limits.max_logit_bias) + " entries.");
  for (const auto& [id, bias] : s.logit_bias) {
    if (auto status = check_id("logit_bias", id, limits.vocab_size); !status) return status;
    if (auto status = in_range(bias, {"logit_bias", -100, 100}); !status) return status;
  }
  return ok_status();
}

Status check_stops(const GenerateRequest& r, const RequestLimits& limits) {
  if (std::ssize(r.stop) > limits.max_stop_strings)
    return bad("stop", "stop may have at most " + std::to_string(limits.max_stop_strings) +
                           " strings, not " + std::to_string(r.stop.size()) + ".");
  for (const std::string& stop : r.stop) {
    if (stop.empty()) return bad("stop", "A stop string must not be empty.");
    if (std::ssize(stop) > limits.max_stop_bytes)
      return bad("stop", "A stop string may have at most " + std::to_string(limits.max_stop_bytes) +
                             " bytes, not " + std::to_string(stop.size()) + ".");
    if (!json::valid_utf8(stop)) return bad("stop", "A stop string must be UTF-8.");
  }
  if (std::ssize(r.stop_token_ids) > limits.max_stop_tokens)
    return bad("stop_token_ids", "stop_token_ids may have at most " +
                                     std::to_string(limits.max_stop_tokens) + " ids.");
  for (const std::int32_t id : r.stop_token_ids)
    if (auto status = check_id("stop_token_ids", id, limits.vocab_size); !status) return status;
  return ok_status();
}

Status check_counts(const GenerateRequest& r, const RequestLimits& limits) {
  if (auto status = count_in_range("n", r.n, 1, limits.max_choices); !status) return status;
  if (r.max_tokens && *r.max_tokens < 1)
    return bad("max_tokens",
               "max_tokens must be at least 1, not " + std::to_string(*r.max_tokens) + ".");
  if (r.logprobs > limits.max_logprobs || r.logprobs < -1) {
    const char* name = r.endpoint == "chat" ? "top_logprobs" : "logprobs";
    return count_in_range(name, r.logprobs, 0, limits.max_logprobs);
  }
  if (r.timeout && r.timeout->count() <= 0) return bad("timeout", "timeout must be above 0.");
  return ok_status();
}

Status check_scope(const GenerateRequest& r, const RequestLimits& limits) {
  if (std::ssize(r.cache_salt) > limits.max_cache_salt_bytes)
    return bad("cache_salt", "cache_salt may have at most " +
                                 std::to_string(limits.max_cache_salt_bytes) + " bytes, not " +
                                 std::to_string(r.cache_salt.size()) + ".");
  if (limits.client_key_needed && r.client_key.empty())
    return bad("client_key", "The cache is divided by client key; this request has none.");
  return ok_status();
}

}  // namespace

Status validate(const GenerateRequest& request, const RequestLimits& limits) {
  if (auto status = check_counts(request, limits); !status) return status;
  if (auto status = check_sampling(request.sampling, limits); !status) return status;
  if (auto status = check_stops(request, limits); !status) return status;
  if (auto status = check_scope(request, limits); !status) return status;
  const bool chat = std::holds_alternative<ChatPrompt>(request.prompt);
  if (chat && !request.cache_positions.empty())
    return bad("cache_positions", "The places of a chat are marked by cache_control in messages.");
  if (auto status = check_cache_positions(request.cache_positions, INT32_MAX); !status)
    return status;
  if (request.prompt_logprobs && chat)
    return Error{ErrorCode::unsupported, "Log-probs of the prompt are not offered for chats.",
                 "prompt_logprobs"};
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&request.prompt)) {
    if (auto status = check_prompt_ids(*ids, limits.vocab_size); !status) return status;
    const auto tokens = static_cast<std::int32_t>(std::min<std::size_t>(ids->size(), INT32_MAX));
    if (auto room = answer_room(tokens, request.max_tokens, limits.context_length); !room)
      return room.error();
    if (auto status = check_cache_positions(request.cache_positions, tokens); !status)
      return status;
    if (request.prompt_logprobs)
      return check_prompt_logprobs(tokens, request.logprobs, limits, request.n);
  }
  return ok_status();
}

Status check_prompt_logprobs(std::int64_t prompt_tokens, std::int32_t logprobs,
                             const RequestLimits& limits, std::int32_t choices) {
  const std::int64_t entries = prompt_tokens * (1 + std::max(logprobs, 0)) * choices;
  if (entries <= limits.max_prompt_logprobs) return ok_status();
  return bad("logprobs", "The log-probs of the prompt would have " + std::to_string(entries) +
                             " entries (tokens * (1 + logprobs) * choices); the limit is " +
                             std::to_string(limits.max_prompt_logprobs) +
                             ". Please ask for fewer or shorten the prompt.");
}

Status check_prompt_ids(std::span<const std::int32_t> ids, std::int32_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!is_id(ids[i], vocab_size))
      return not_an_id("prompt", "prompt[" + std::to_string(i) + "]", ids[i], vocab_size);
  return ok_status();
}

Status check_cache_positions(std::span<const std::int32_t> positions, std::int32_t prompt_tokens) {
  constexpr const char* kName = "cache_positions";
  if (positions.size() > kMaxCacheMarks)
    return bad(kName, "cache_positions may have at most " + std::to_string(kMaxCacheMarks) +
                          " positions, not " + std::to_string(positions.size()) + ".");
  for (const std::int32_t position : positions) {
    if (position < 1)
      return bad(kName,
                 "A cache position must be at least 1, not " + std::to_string(position) + ".");
    if (position > prompt_tokens)
      return bad(kName, "Cache position " + std::to_string(position) +
                            " is behind the end of the prompt, which has " +
                            std::to_string(prompt_tokens) + " tokens.");
  }
  return ok_status();
}

Error empty_prompt() {
  return bad("prompt", "The prompt is empty: it must have at least one token.");
}

const char* prompt_field(const Prompt& prompt) {
  return std::holds_alternative<ChatPrompt>(prompt) ? "messages" : "prompt";
}

Result<std::int32_t> answer_room(std::int32_t prompt_tokens, std::optional<std::int32_t> max_tokens,
                                 std::int32_t context_length, const char* field) {
  if (prompt_tokens < 1) return empty_prompt();
  const std::int64_t wanted = max_tokens.value_or(1);
  if (prompt_tokens + wanted <= context_length)
    return max_tokens ? *max_tokens : context_length - prompt_tokens;
  const std::string limit = "This model's maximum context length is " +
                            std::to_string(context_length) + " tokens. However, ";
  const std::string asked =
      max_tokens ? "you requested " + std::to_string(prompt_tokens + wanted) + " tokens (" +
                       std::to_string(prompt_tokens) + " in the prompt, " + std::to_string(wanted) +
                       " in the completion). Please reduce the length of the prompt or completion."
                 : "your prompt resulted in " + std::to_string(prompt_tokens) +
                       " tokens, which leaves no room for an answer. Please reduce its length.";
  return Error{ErrorCode::context_overflow, limit + asked, field};
}

}  // namespace cairn::engine
