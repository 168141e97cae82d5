// SPDX-License-Identifier: Apache-2.0
#include "model/text/tokenizer_added.hpp"

#include <algorithm>

namespace cairn::text {

AddedMatcher::AddedMatcher(const std::vector<AddedToken>& tokens, bool normalized) {
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized || token.content.empty()) continue;
    tokens_.emplace_back(token.content, token.id);
    starts_[static_cast<unsigned char>(token.content[0])] = true;
  }
  std::sort(tokens_.begin(), tokens_.end());
}

void AddedMatcher::narrow(Iterator& first, Iterator& last, std::size_t depth, char next) {
  const auto byte = [depth](const Entry& e) { return static_cast<unsigned char>(e.first[depth]); };
  const auto wanted = static_cast<unsigned char>(next);
  first = std::lower_bound(first, last, wanted,
                           [&](const Entry& e, unsigned char b) { return byte(e) < b; });
  last = std::upper_bound(first, last, wanted,
                          [&](unsigned char b, const Entry& e) { return b < byte(e); });
}

}  // namespace cairn::text
