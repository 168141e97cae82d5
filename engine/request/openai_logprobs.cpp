// SPDX-License-Identifier: Apache-2.0
#include "engine/request/openai_logprobs.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace cairn::engine::openai {
namespace {

// JSON has no -inf; this is what clients of the API know as "impossible". They expect numbers.
constexpr float kImpossible = -9999.0F;

void write_value(JsonWriter& json, float logprob) {
  const bool possible = std::isfinite(logprob) && logprob >= kImpossible;
  json.number(possible ? logprob : kImpossible);
}

void write_token(JsonWriter& json, const TokenLogprob& token) {
  json.key("token").string(token.bytes).key("logprob");
  write_value(json, token.logprob);
  json.key("bytes").begin_array();
  for (const char byte : token.bytes) json.integer(static_cast<unsigned char>(byte));
  json.end_array();
}

std::string spelling(const std::string& bytes) {
  if (json::valid_utf8(bytes)) return bytes;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char c : bytes) {
    text += "\\x";
    text += kHex[(c >> 4) & 15];
    text += kHex[c & 15];
  }
  return text;
}

// Characters that begin in `bytes`.
std::int64_t characters(const std::string& bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

void write_top(JsonWriter& json, const TokenInfo& info) {
  json.begin_object();
  bool has_chosen = false;
  for (const auto& top : info.top) {
    json.key(spelling(top.bytes));
    write_value(json, top.logprob);
    has_chosen = has_chosen || top.token == info.chosen.token;
  }
  if (!has_chosen) {
    json.key(spelling(info.chosen.bytes));
    write_value(json, info.chosen.logprob);
  }
  json.end_object();
}

}  // namespace

void write_chat_logprobs(JsonWriter& json, std::span<const TokenInfo> tokens) {
  json.begin_object().key("content").begin_array();
  for (const auto& info : tokens) {
    json.begin_object();
    write_token(json, info.chosen);
    json.key("top_logprobs").begin_array();
    for (const auto& top : info.top) {
      json.begin_object();
      write_token(json, top);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("refusal").null().end_object();
}

void write_completion_logprobs(JsonWriter& json, std::span<const TokenInfo> prompt,
                               std::span<const TokenInfo> tokens, std::int64_t& offset) {
  const auto each = [&](const auto& write) {
    for (const auto& info : prompt) write(info, &info == prompt.data());
    for (const auto& info : tokens) write(info, false);
  };
  json.begin_object().key("tokens").begin_array();
  each([&](const TokenInfo& info, bool) { json.string(spelling(info.chosen.bytes)); });
  json.end_array().key("token_logprobs").begin_array();
  each([&](const TokenInfo& info, bool has_none) {
    if (has_none)
      json.null();
    else
      write_value(json, info.chosen.logprob);
  });
  json.end_array().key("top_logprobs").begin_array();
  each([&](const TokenInfo& info, bool has_none) {
    if (has_none)
      json.null();
    else
      write_top(json, info);
  });
  json.end_array().key("text_offset").begin_array();
  each([&](const TokenInfo& info, bool) {
    json.integer(offset);
    offset += characters(info.chosen.bytes);
  });
  json.end_array().end_object();
}

}  // namespace cairn::engine::openai
