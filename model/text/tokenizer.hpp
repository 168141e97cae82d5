// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE as Qwen's tokenizer.json describes it: added tokens, NFC, a splitting regex,
// merges by rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The contents of a tokenizer's files; an empty view stands for a file that is not there.
/// Needed: tokenizer_json, or vocab_json with merges_txt. The views need not outlive the call.
struct TokenizerFiles {
  std::string_view tokenizer_json;
  std::string_view tokenizer_config_json;  // eos, pad, chat template, added tokens
  std::string_view vocab_json;
  std::string_view merges_txt;
  std::string_view chat_template_jinja;  // wins over tokenizer_config_json's chat_template
};

/// A token that is cut out of the raw text before anything else happens to it.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;     // dropped by skip_special; a token such as <think> is not special
  bool normalized = false;  // looked for after NFC, in what the others left
};

/// A part of a prompt: the template's own markers may become added tokens, a user's words may not.
struct Segment {
  std::string_view text;
  bool special_allowed = false;
};

/// Where tokens lie in the bytes that were encoded (of all segments together).
struct TokenMap {
  /// Byte at which token i starts; one more entry than tokens, the last is the number of bytes.
  /// Tokens inside characters that were rewritten (NFC, U+FFFD) start at the first byte of what was
  /// rewritten.
  std::vector<std::size_t> begin;
  /// 1 where token i starts a pre-token or is an added token: no merge crosses such an edge. As
  /// long as begin.
  std::vector<std::uint8_t> edge;

  /// Number of tokens before the last edge at or before `byte`: where a marked boundary inside text
  /// backs off to.
  std::size_t tokens_before_edge(std::size_t byte) const;
};

/// Immutable and thread-safe. Encoding and decoding accept any bytes and any ids and never fail.
///
/// Bytes that are not UTF-8 are replaced by U+FFFD before tokenizing, one for each maximal part of
/// a character, exactly as Python's bytes.decode("utf-8", "replace") does.
class Tokenizer {
 public:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Throws LoadError with one sentence that names file, field and expectation.
  static std::shared_ptr<const Tokenizer> from_files(const TokenizerFiles& files);

  /// With parse_special added tokens are recognised (longest match first, on the raw text);
  /// without, text that spells one stays text.
  std::vector<std::int32_t> encode(std::string_view utf8, bool parse_special) const;

  /// The segments as one string, except that added tokens are only recognised where they lie
  /// completely inside segments that allow them. Text merges across a segment's edge as it does
  /// inside one string.
  std::vector<std::int32_t> encode_segments(std::span<const Segment> segments,
                                            TokenMap* map = nullptr) const;

  /// Text of ids; bytes that are no UTF-8 become U+FFFD; ids that do not exist give nothing.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  /// The last place at or before `offset` that no merge crosses, in `utf8` encoded as plain text.
  std::size_t last_pretoken_edge(std::string_view utf8, std::size_t offset) const;

  /// The token's bytes, maybe half a character; empty for an id that does not exist.
  std::string_view id_to_bytes(std::int32_t id) const;
  /// Id of the token with exactly these bytes (added tokens first).
  std::optional<std::int32_t> token_to_id(std::string_view bytes) const;
  bool is_special(std::int32_t id) const;
  /// Largest id plus one; a model's output layer may have more rows.
  std::int32_t vocab_size() const;
  /// Ordered by id.
  const std::vector<AddedToken>& added_tokens() const;

  /// tokenizer_config's eos_token, and <|endoftext|> where that is a special token: the stop set
  /// for chat.
  const std::vector<std::int32_t>& eos_ids() const;
  std::optional<std::int32_t> pad_id() const;
  /// Empty when the files hold none.
  const std::string& chat_template() const;

 private:
  std::unique_ptr<const Impl> impl_;
};

/// Reads tokenizer.json (or vocab.json and merges.txt), tokenizer_config.json and
/// chat_template.jinja. Throws LoadError as Tokenizer::from_files does.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& directory);

}  // namespace cairn::text
