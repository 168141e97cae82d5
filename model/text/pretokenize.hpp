// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces that merges cannot leave, by the regex of the model's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The splitting regexes that a scanner by hand knows; any other goes through PCRE2.
extern const std::string_view kQwen35Pattern;  // marks belong to words
extern const std::string_view kQwen2Pattern;   // Qwen2 to Qwen3: marks count as punctuation

/// Immutable and thread-safe. Every byte of a text belongs to exactly one piece.
class Pretokenizer {
 public:
  enum class Engine : std::uint8_t { automatic, regex };  // regex: never the scanner

  /// Throws LoadError when the pattern does not compile; the message is the part after "file: field
  /// ".
  explicit Pretokenizer(std::string_view pattern, Engine engine = Engine::automatic);
  ~Pretokenizer();
  Pretokenizer(const Pretokenizer&) = delete;
  Pretokenizer& operator=(const Pretokenizer&) = delete;

  /// Appends the end of every piece of `text` (UTF-8) to `ends`. A text on which the regex gives up
  /// (its match limits exist for hostile input) is cut after the character where it did; at the
  /// 16th such place the rest is one piece.
  void split(std::string_view text, std::vector<std::size_t>& ends) const;

  /// True when the pattern is one that the scanner knows.
  bool has_scanner() const { return scanner_ != Scanner::none; }

 private:
  enum class Scanner : std::uint8_t { none, qwen2, qwen35 };
  struct Regex;
  Scanner scanner_ = Scanner::none;
  std::unique_ptr<const Regex> regex_;
};

}  // namespace cairn::text
