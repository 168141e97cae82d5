// SPDX-License-Identifier: Apache-2.0
// A tokenizer small enough to work out by hand, in every spelling of its files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/text/tokenizer.hpp"

namespace cairn::text::test {

using Ids = std::vector<std::int32_t>;

/// Pieces and merges in plain bytes; writes the files in the byte alphabet.
struct MiniTokenizer {
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::map<std::string, std::int32_t> vocab;                // piece -> id

  /// 256 bytes as ids 1000..1255 and one id for each merge result, descending from 999: no id
  /// follows a rank.
  explicit MiniTokenizer(std::vector<std::pair<std::string, std::string>> merges);

  std::string vocab_json() const;
  std::string merges_txt() const;
  std::string tokenizer_json(bool pairs) const;
  static std::string tokenizer_config_json();
  std::int32_t id(const std::string& piece) const { return vocab.at(piece); }
  /// Merges one piece by the definition: again and again the lowest rank, leftmost first.
  Ids merge_by_definition(const std::string& piece) const;
};

/// Ids of the added tokens of every MiniTokenizer.
inline constexpr std::int32_t kEndOfText = 2000;  // <|endoftext|>, special
inline constexpr std::int32_t kImStart = 2001;    // <|im_start|>, special
inline constexpr std::int32_t kImEnd = 2002;      // <|im_end|>, special
inline constexpr std::int32_t kThink = 2003;      // <think>, not special
inline constexpr std::int32_t kThinkMore = 2004;  // <think>more, not special

/// "hello", " world", "in", pairs of blanks and line ends, and so on.
MiniTokenizer mini();
std::shared_ptr<const Tokenizer> load_mini(const MiniTokenizer& mini);

/// Any bytes, mostly valid text of several scripts.
std::string random_text(std::mt19937& rng, bool valid);
std::string utf8(std::uint32_t code_point);

}  // namespace cairn::text::test
