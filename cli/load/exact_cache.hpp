// SPDX-License-Identifier: Apache-2.0
// What a cache without limits would have to compute: one that keeps every prefix of all it has
// seen, to the token.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace cairn::load {

/// One owner. What is the beginning of another sequence is not held twice. A question costs O(log
/// n) comparisons of sequences.
class ExactCache {
 public:
  /// Tokens of `prompt` to compute: those behind its longest known prefix, at least the last one.
  std::int64_t needed(const std::vector<std::int32_t>& prompt) const;
  void add(std::vector<std::int32_t> tokens);
  void clear() { known_.clear(); }

 private:
  std::set<std::vector<std::int32_t>> known_;
};

}  // namespace cairn::load
