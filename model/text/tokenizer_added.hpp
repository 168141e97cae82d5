// SPDX-License-Identifier: Apache-2.0
// Finds added tokens in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/tokenizer.hpp"

namespace cairn::text {

/// A set of strings, searched for at one place of a text at a time. Immutable; the tokens must
/// outlive it.
class AddedMatcher {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = -1;
  };

  AddedMatcher() = default;
  /// Takes the tokens whose `normalized` is as given.
  AddedMatcher(const std::vector<AddedToken>& tokens, bool normalized);
  bool empty() const { return tokens_.empty(); }

  /// The leftmost match from `from` on, the longest there, for which allowed(begin, end) holds; id
  /// -1 when there is none. Time O(text + matches * log(tokens)), whatever the tokens have in
  /// common.
  template <class Allowed>
  Match find(std::string_view text, std::size_t from, const Allowed& allowed) const {
    for (std::size_t at = from; at < text.size(); ++at) {
      if (!starts_[static_cast<unsigned char>(text[at])]) continue;
      Match best;
      walk(text, at, [&](std::size_t end, std::int32_t id) {
        if (allowed(at, end)) best = {at, end, id};
      });
      if (best.id >= 0) return best;
    }
    return {text.size(), text.size(), -1};
  }

 private:
  using Entry = std::pair<std::string_view, std::int32_t>;

  // Calls hit(end, id) for every token at `at`, shorter ones first: in a sorted list the tokens
  // that share the bytes read so far stand together, and the one that ends there comes first.
  template <class Hit>
  void walk(std::string_view text, std::size_t at, const Hit& hit) const {
    auto first = tokens_.begin();
    auto last = tokens_.end();
    for (std::size_t depth = 0; at + depth < text.size() && first != last; ++depth) {
      narrow(first, last, depth, text[at + depth]);
      if (first != last && first->first.size() == depth + 1) {
        hit(at + depth + 1, first->second);
        ++first;
      }
    }
  }
  using Iterator = std::vector<Entry>::const_iterator;
  static void narrow(Iterator& first, Iterator& last, std::size_t depth, char next);

  std::vector<Entry> tokens_;  // sorted by content
  std::vector<bool> starts_ = std::vector<bool>(256);
};

}  // namespace cairn::text
