// SPDX-License-Identifier: Apache-2.0
#include "cli/load/exact_cache.hpp"

#include <algorithm>
#include <iterator>

namespace cairn::load {
namespace {

std::int64_t common(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

// In alphabetical order the sequence that shares most stands beside the place of the prompt.
std::int64_t ExactCache::needed(const std::vector<std::int32_t>& prompt) const {
  std::int64_t shared = 0;
  const auto next = known_.lower_bound(prompt);
  if (next != known_.end()) shared = common(prompt, *next);
  if (next != known_.begin()) shared = std::max(shared, common(prompt, *std::prev(next)));
  const auto length = std::ssize(prompt);
  return length - std::min(shared, length - 1);
}

}  // namespace cairn::load
