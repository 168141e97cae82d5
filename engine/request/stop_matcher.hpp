// SPDX-License-Identifier: Apache-2.0
// Stop strings over text that arrives in pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::engine {

/// Finds the first stop string in accumulated text, wherever the pieces were cut, and holds back
/// what could still become one. Work is linear in the text for each stop string. One owner, one
/// answer.
class StopMatcher {
 public:
  /// Empty strings are ignored.
  explicit StopMatcher(const std::vector<std::string>& stops = {});

  /// Adds text and returns what may be shown: all but the longest suffix that begins a stop string,
  /// or, when one was completed, everything before it. Returns "" once stopped.
  std::string push(std::string_view text);

  /// A stop string was completed; it and what followed are dropped.
  bool stopped() const { return stopped_; }

  /// The answer ended otherwise: what was held back.
  std::string finish();

  /// Bytes held back now.
  std::size_t held_bytes() const { return held_.size(); }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t> fallback;  // [size]: longest proper border of text[0..i]
    std::uint32_t matched = 0;            // bytes of `text` that the accumulated text ends with
    void step(char c);
  };
  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace cairn::engine
