// SPDX-License-Identifier: Apache-2.0
// Turns the tokens of one request into text as they arrive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "model/text/tokenizer.hpp"

namespace cairn::text {

/// Cuts a stream of bytes at characters. Bytes that are no UTF-8 become U+FFFD as soon as no later
/// byte can make them a character, by the rule of Python's bytes.decode("utf-8", "replace").
class Utf8Stream {
 public:
  /// Appends to `out` the text that is certain by now.
  void push(std::string_view bytes, std::string& out);
  /// Appends U+FFFD if the stream stopped inside a character, and starts again.
  void flush(std::string& out);
  /// Bytes that wait for the rest of their character.
  std::string_view pending() const { return pending_; }

 private:
  std::string pending_;  // at most 3 bytes
};

/// One per request, used by one thread at a time. All pushes and the flush together give exactly
/// Tokenizer::decode of the same ids.
class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  /// The text that may be sent now; empty while a character is incomplete.
  std::string push(std::int32_t id);
  /// What is left when no token follows.
  std::string flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  Utf8Stream stream_;
};

}  // namespace cairn::text
