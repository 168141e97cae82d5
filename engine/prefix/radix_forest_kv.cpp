// SPDX-License-Identifier: Apache-2.0
// What nodes hold: states, KV blocks, and the check of the forest's invariants.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "engine/prefix/radix_forest.hpp"

namespace cairn::engine {
namespace {

std::int32_t first_block(const ForestNode& node) { return node.start / model::kBlockTokens; }
std::int32_t end_block(const ForestNode& node) { return node.end / model::kBlockTokens; }

}  // namespace

void RadixForest::hold(const KvBlockRef& block) {
  const auto id = static_cast<std::size_t>(block.id());
  if (id >= held_.size()) held_.resize(std::max(id + 1, held_.size() * 2));
  if (held_[id].names++ == 0) {
    held_[id].block = block;
    ++block_count_;
  }
}

bool RadixForest::release(std::int32_t id) {
  Held& held = held_[static_cast<std::size_t>(id)];
  if (--held.names > 0) return false;
  const bool last = held.block.use_count() == 1;
  held.block = KvBlockRef();
  --block_count_;
  return last;
}

void RadixForest::set_pending(ForestNode& node, StateKind kind) {
  tree_.claim(node.plan, Claim::pending, kind);
  unlist(node);
}

void RadixForest::drop_pending(ForestNode& node) {
  check(claim(node) == Claim::pending, "a claim was dropped that is not pending");
  tree_.release(node.plan);
  claim_is_gone(node);
}

void RadixForest::set_state(ForestNode& node, StateRef state, StateKind kind,
                            std::span<const KvBlockRef> blocks) {
  check(node.parent != nullptr && !node.state && state, "a state needs a node without one");
  check(static_cast<std::int32_t>(blocks.size()) >= blocks_for(node.end),
        "a state came without the KV of its prefix");
  const auto name = [&](std::int32_t index) {
    const KvBlockRef& block = blocks[static_cast<std::size_t>(index)];
    hold(block);
    return block.id();
  };
  for (ForestNode* n = &node; n->parent != nullptr && n->needs++ == 0; n = n->parent) {
    n->blocks.reserve(static_cast<std::size_t>(end_block(*n) - first_block(*n)));
    for (std::int32_t i = first_block(*n); i < end_block(*n); ++i) n->blocks.push_back(name(i));
    n->kv_once = n->end;
  }
  if (node.end % model::kBlockTokens != 0) node.tail = name(end_block(node));
  unlist(node);
  node.state = std::move(state);
  tree_.claim(node.plan, Claim::stored, kind);
  ++state_count_;
}

ForestFreed RadixForest::drop_state(ForestNode& node) {
  check(static_cast<bool>(node.state), "a state was dropped that is not there");
  ForestFreed freed;
  if (node.state.use_count() == 1) freed.states = 1;
  node.state = StateRef();
  if (node.tail >= 0) freed.blocks += release(std::exchange(node.tail, -1)) ? 1 : 0;
  for (ForestNode* n = &node; n->parent != nullptr && --n->needs == 0; n = n->parent) {
    for (const std::int32_t id : n->blocks) freed.blocks += release(id) ? 1 : 0;
    n->blocks = {};
  }
  --state_count_;
  tree_.release(node.plan);
  claim_is_gone(node);
  return freed;
}

std::vector<KvBlockRef> RadixForest::block_table(const ForestNode& node) const {
  std::vector<KvBlockRef> table(static_cast<std::size_t>(blocks_for(node.end)));
  // All are of one pool: the counts alone are touched, not each handle that is held.
  const auto handle = [&](std::int32_t id) -> const KvBlockRef& {
    return held_[static_cast<std::size_t>(id)].block;
  };
  if (node.tail >= 0) table.back() = handle(node.tail);
  for (const ForestNode* n = &node; n->parent != nullptr; n = n->parent) {
    if (n->blocks.empty()) continue;
    const KvBlockRef& first = handle(n->blocks.front());
    auto at = static_cast<std::size_t>(first_block(*n));
    for (const std::int32_t id : n->blocks) table[at++] = first.sibling(id);
  }
  return table;
}

ForestFreed RadixForest::unshared() const {
  ForestFreed count;
  for (const Held& held : held_) {
    count.blocks += held.names > 0 && held.block.use_count() == 1 ? 1 : 0;
  }
  for (const ForestNode* n : by_plan_) {
    count.states += n != nullptr && n->state.use_count() == 1 ? 1 : 0;
  }
  return count;
}

void RadixForest::verify_node(const ForestNode& n) const {
  std::int32_t needs = n.state ? 1 : 0;
  for (std::size_t i = 0; i < n.children.size(); ++i) {
    const ForestNode::Child& c = n.children[i];
    check(i == 0 || n.children[i - 1].token < c.token, "children out of order");
    check(c.node->parent == &n && c.node->start == n.end, "a child hangs on another node");
    check(c.node->edge.front() == c.token, "a child under another token");
    check(tree_[c.node->plan].parent == n.plan, "the planner's tree has another shape");
    needs += c.node->needs > 0 ? 1 : 0;
  }
  if (n.parent == nullptr) {
    check(n.plan == kPlanRoot && !n.children.empty(), "a scope without a path");
    return;
  }
  check(needs == n.needs, "those that need KV are miscounted");
  check(n.end > n.start && static_cast<std::int32_t>(n.edge.size()) == n.end - n.start,
        "an edge of another length");
  check(tree_[n.plan].used && tree_[n.plan].depth == n.end && node(n.plan) == &n,
        "the planner's tree has another node");
  check((claim(n) == Claim::stored) == static_cast<bool>(n.state),
        "a stored claim without a state, or a state without one");
  check(n.listed == (n.children.empty() && claim(n) == Claim::none),
        "a leaf missing from the list");
  check(static_cast<std::int32_t>(n.blocks.size()) ==
            (n.needs > 0 ? end_block(n) - first_block(n) : 0),
        "KV without a state below it, or a state without KV");
  check((n.tail >= 0) == (n.state && n.end % model::kBlockTokens != 0), "a tail without a state");
}

void RadixForest::verify() const {
  tree_.verify();
  std::vector<std::int32_t> named(held_.size(), 0);
  std::vector<const ForestNode*> open;
  for (const auto& [name, scope] : scopes_) {
    check(scope.name == name, "a scope under another name");
    open.push_back(&scope);
  }
  std::int64_t nodes = -static_cast<std::int64_t>(open.size());
  std::int64_t tokens = 0, listed = 0, states = 0, charged = 0;
  while (!open.empty()) {
    const ForestNode& n = *open.back();
    open.pop_back();
    verify_node(n);
    for (const ForestNode::Child& c : n.children) open.push_back(c.node);
    ++nodes;
    tokens += n.end - n.start;
    listed += n.listed ? 1 : 0;
    states += n.state ? 1 : 0;
    for (const std::int32_t id : n.blocks) ++named[static_cast<std::size_t>(id)];
    if (n.tail >= 0) ++named[static_cast<std::size_t>(n.tail)];
    if (n.parent == nullptr || tree_.claims(n.plan) == 0) continue;
    charged += end_block(n) - first_block(n);
    charged += claim(n) != Claim::none && n.end % model::kBlockTokens != 0 ? 1 : 0;
  }
  if (const ByteCosts& costs = tree_.costs(); costs.kv_block == model::kBlockTokens) {
    const std::uint64_t block = costs.kv_bytes_per_token * model::kBlockTokens;
    check(tree_.bytes() == static_cast<std::uint64_t>(tree_.claims()) * costs.state_bytes +
                               static_cast<std::uint64_t>(charged) * block,
          "the planner's tree counts other bytes");
  }
  check(nodes == tree_.size() && tokens == token_count_ && states == state_count_,
        "nodes, tokens or states are miscounted");
  check(listed == static_cast<std::int64_t>(leaves_.size()), "the list of leaves is off");
  std::int64_t blocks = 0;
  for (std::size_t id = 0; id < held_.size(); ++id) {
    check(named[id] == held_[id].names, "a block's namers are miscounted");
    check((named[id] > 0) == static_cast<bool>(held_[id].block), "a block is held for nobody");
    blocks += named[id] > 0 ? 1 : 0;
  }
  check(blocks == block_count_, "blocks are miscounted");
}

}  // namespace cairn::engine
