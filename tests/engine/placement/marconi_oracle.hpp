// SPDX-License-Identifier: Apache-2.0
// What `marconi` is to give up, by the words of its definition: a scan of all claims.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/placement/cache_policy.hpp"

namespace cairn::test {

/// `used`: the tick of its last use, by claim. Where ways by the dozen leave no place.
inline engine::PlanNode marconi_choice(const engine::PlanTree& tree,
                                       const std::map<engine::PlanNode, std::uint64_t>& used,
                                       const engine::CachePolicy::Usable& usable, double alpha,
                                       const engine::CostModel& prefill = {}) {
  using engine::PlanNode;
  std::map<PlanNode, int> next_below;
  for (const auto& [c, tick] : used) ++next_below[tree.claim_above(c)];
  std::vector<PlanNode> candidates, others;
  for (const auto& [c, tick] : used) {
    if (usable(c)) (next_below[c] < 2 ? candidates : others).push_back(c);
  }
  const auto saved_per_byte = [&](PlanNode c) {
    return prefill.between(tree[tree.claim_above(c)].depth, tree[c].depth) /
           static_cast<double>(tree.exclusive_bytes(c));
  };
  struct Range {
    double low = 1e300, high = -1e300;
    void show(double x) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
    double scaled(double x) const { return high > low ? (x - low) / (high - low) : 1; }
  };
  Range recency, efficiency;
  for (const PlanNode c : candidates) {
    recency.show(static_cast<double>(used.at(c)));
    efficiency.show(saved_per_byte(c));
  }
  const bool only_forks = candidates.empty();
  const auto key = [&](PlanNode c) {
    const double score = only_forks ? 0
                                    : recency.scaled(static_cast<double>(used.at(c))) +
                                          alpha * efficiency.scaled(saved_per_byte(c));
    return std::tuple(score, used.at(c), -tree[c].depth, c);
  };
  const std::vector<PlanNode>& among = only_forks ? others : candidates;
  if (among.empty()) return engine::kNoPlanNode;
  return *std::min_element(among.begin(), among.end(),
                           [&](PlanNode a, PlanNode b) { return key(a) < key(b); });
}

}  // namespace cairn::test
