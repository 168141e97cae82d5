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

// What another one begins with says nothing that the other does not; it stands just before it.
void ExactCache::add(std::vector<std::int32_t> tokens) {
  const auto [at, fresh] = known_.insert(std::move(tokens));
  if (!fresh) return;
  const auto begins = [](const auto& with, const auto& it) {
    return with->size() < it->size() && common(*with, *it) == std::ssize(*with);
  };
  const auto next = std::next(at);
  if (next != known_.end() && begins(at, next)) {
    known_.erase(at);
  } else if (at != known_.begin() && begins(std::prev(at), at)) {
    known_.erase(std::prev(at));
  }
}

}  // namespace cairn::load
