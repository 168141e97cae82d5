// SPDX-License-Identifier: Apache-2.0
// Claims in the order of their last use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

/// Least recently used first; of one tick the deepest first, because what lies above serves more
/// prompts than what lies below it. Owned by one thread; O(log claims) each.
class LruOrder {
 public:
  struct Entry {
    std::uint64_t tick = 0;
    std::int32_t depth = 0;
    PlanNode node = kPlanRoot;
    bool operator<(const Entry& other) const {
      if (tick != other.tick) return tick < other.tick;
      return depth != other.depth ? depth > other.depth : node < other.node;
    }
  };

  /// Enters the node or moves it.
  void use(PlanNode node, std::int32_t depth, std::uint64_t tick);
  void forget(PlanNode node);
  void clear();

  /// The first that is usable; kNoPlanNode when none is.
  PlanNode least(const CachePolicy::Usable& usable) const;

  /// Of a node that is entered.
  const Entry& operator[](PlanNode node) const { return entries_[node]; }

  std::size_t size() const { return order_.size(); }
  auto begin() const { return order_.begin(); }
  auto end() const { return order_.end(); }

 private:
  std::set<Entry> order_;
  std::vector<Entry> entries_;  // by node; tick 0: not entered
};

}  // namespace cairn::engine
