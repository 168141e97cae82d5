// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/lru_order.hpp"

#include "base/check.hpp"

namespace cairn::engine {

void LruOrder::use(PlanNode node, std::int32_t depth, std::uint64_t tick) {
  check(tick > 0, "ticks count from 1");
  forget(node);
  if (entries_.size() <= node) entries_.resize(node + std::size_t{1});
  entries_[node] = {tick, depth, node};
  order_.insert(entries_[node]);
}

void LruOrder::forget(PlanNode node) {
  if (node >= entries_.size() || entries_[node].tick == 0) return;
  order_.erase(entries_[node]);
  entries_[node] = {};
}

void LruOrder::clear() {
  order_.clear();
  entries_.clear();
}

PlanNode LruOrder::least(const CachePolicy::Usable& usable) const {
  for (const Entry& e : order_) {
    if (usable(e.node)) return e.node;
  }
  return kNoPlanNode;
}

}  // namespace cairn::engine
