// SPDX-License-Identifier: Apache-2.0
// What a loaded tokenizer consists of; shared by loading and encoding, included by nothing else.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/text/bpe.hpp"
#include "model/text/pretokenize.hpp"
#include "model/text/tokenizer.hpp"
#include "model/text/tokenizer_added.hpp"

namespace cairn::text {

struct Tokenizer::Impl {
  std::unique_ptr<Vocabulary> vocabulary;  // base pieces indexed; added tokens have bytes only
  std::unique_ptr<Bpe> bpe;
  std::unique_ptr<const Pretokenizer> pretokenizer;
  bool nfc = false;
  std::vector<AddedToken> added;  // by id
  std::vector<bool> special;      // [vocabulary size]
  AddedMatcher raw;               // of `added`: sought before NFC
  AddedMatcher normalized;        // of `added`: sought after NFC
  std::vector<std::int32_t> eos_ids;
  std::optional<std::int32_t> pad_id;
  std::string chat_template;
};

/// Throws LoadError as Tokenizer::from_files says.
std::unique_ptr<const Tokenizer::Impl> build_tokenizer(const TokenizerFiles& files);

}  // namespace cairn::text
