// SPDX-License-Identifier: Apache-2.0
#include "engine/prefix/state_order.hpp"

#include <cmath>
#include <limits>

#include "base/check.hpp"

namespace cairn::engine {

Candidate StateOrder::candidate(const ForestNode& node) const {
  Candidate c;
  c.position = node.end;
  c.kind = node.kind;
  c.last_used = node.last_used;
  c.bytes = layout_.state_bytes +
            static_cast<std::uint64_t>(forest_.exclusive_blocks(node)) * layout_.kv_block_bytes;
  const ForestNode* above = node.parent;
  while (above != nullptr && !above->state) above = above->parent;
  c.gap = node.end - (above == nullptr ? 0 : above->end);
  return c;
}

double StateOrder::value(const Candidate& candidate) const {
  const double v = policy_.value(candidate);
  return std::isnan(v) ? -std::numeric_limits<double>::infinity() : v;
}

void StateOrder::add(ForestNode& node) {
  node.value = value(candidate(node));
  check(set_.insert(&node).second, "a state entered the order twice");
}

void StateOrder::remove(ForestNode& node) {
  check(set_.erase(&node) == 1, "a state was missing from the order");
}

void StateOrder::renew(ForestNode& node) {
  const double v = value(candidate(node));
  if (v == node.value) return;
  remove(node);
  node.value = v;
  set_.insert(&node);
}

void StateOrder::renew_all() {
  const std::vector<ForestNode*> all(set_.begin(), set_.end());
  set_.clear();
  for (ForestNode* node : all) add(*node);
}

std::vector<ForestNode*> StateOrder::neighbours(ForestNode& node) const {
  std::vector<ForestNode*> found;
  const auto go_down = [&](const ForestNode& from, std::vector<ForestNode*>& open) {
    for (const ForestNode::Child& c : from.children) {
      if (c.node->states > 0 && open.size() < kMaxVisits) open.push_back(c.node);
    }
  };
  std::vector<ForestNode*> open;
  go_down(node, open);
  for (std::size_t i = 0; i < open.size(); ++i) {  // `open` grows while it is read
    ForestNode* n = open[i];
    if (n->state) found.push_back(n);
    // Below a state, only what may share the block that `node` ends in is of interest.
    if (!n->state || n->end / model::kBlockTokens == node.end / model::kBlockTokens) {
      go_down(*n, open);
    }
  }
  // The lowest KV that is kept for another state as well. If that is one state only, the KV above
  // is its own once this state is gone.
  const std::int32_t own = node.state ? 1 : 0;
  ForestNode* fork = &node;
  const ForestNode* from = nullptr;
  std::int32_t others = node.states - own;
  while (others == 0 && fork->parent != nullptr) {
    from = fork;
    fork = fork->parent;
    others = fork->states - own;
  }
  // States above that end inside the first block that goes with this state may be the last to name
  // it.
  const ForestNode* top = from != nullptr ? from : &node;
  const std::int32_t first = (from != nullptr ? from->start : node.end) / model::kBlockTokens;
  for (ForestNode* n = top->parent; n != nullptr && n->end / model::kBlockTokens >= first;
       n = n->parent) {
    if (n->state) found.push_back(n);
  }
  if (fork == &node || others != 1) return found;  // below `node` it has been found
  while (!fork->state) {
    ForestNode* next = nullptr;
    for (const ForestNode::Child& c : fork->children) {
      if (c.node != from && c.node->states > 0) next = c.node;
    }
    check(next != nullptr, "a counted state cannot be found");
    fork = next;
  }
  found.push_back(fork);
  return found;
}

ForestNode* StateOrder::least() {
  for (auto it = set_.begin(); it != set_.end();) {
    ForestNode* node = *it;
    if (node->state.use_count() > 1) {
      ++it;
      continue;
    }
    const double before = node->value;
    renew(*node);
    if (node->value <= before) return node;
    it = set_.begin();
  }
  return nullptr;
}

std::int64_t StateOrder::unshared_states() const {
  std::int64_t count = 0;
  for (const ForestNode* node : set_) count += node->state.use_count() == 1 ? 1 : 0;
  return count;
}

}  // namespace cairn::engine
