// SPDX-License-Identifier: Apache-2.0
// What a tokenizer's files say, before anything is built from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "model/text/tokenizer.hpp"

namespace cairn::text {

struct TokenizerSpec {
  std::string vocab_file = "tokenizer.json";  // for error messages
  std::string merges_file = "tokenizer.json";
  std::vector<std::pair<std::string_view, std::int32_t>> vocab;       // piece as spelled, id
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // by rank
  std::vector<AddedToken> added;
  std::string pattern;
  bool nfc = true;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::string chat_template;

  std::vector<json::Value> documents;  // what the views point into, with the files' own text
};

/// Ids end here: a wrong one must not make the tables fill the memory.
inline constexpr std::int64_t kMaxTokenId = (1 << 22) - 1;

/// Throws LoadError with a sentence that names file, field and expectation. `files` must outlive
/// the result.
TokenizerSpec read_tokenizer_spec(const TokenizerFiles& files);

}  // namespace cairn::text
