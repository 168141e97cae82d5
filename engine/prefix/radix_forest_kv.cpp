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

void RadixForest::set_state(ForestNode& node, StateRef state, std::span<const KvBlockRef> blocks) {
  check(&node != &root_ && !node.state && state, "a state needs a node without one");
  check(static_cast<std::int32_t>(blocks.size()) >= blocks_for(node.end),
        "a state came without the KV of its prefix");
  const auto name = [&](std::int32_t index) {
    const KvBlockRef& block = blocks[static_cast<std::size_t>(index)];
    hold(block);
    return block.id();
  };
  for (ForestNode* n = &node; n != &root_ && n->states == 0; n = n->parent) {
    n->blocks.reserve(static_cast<std::size_t>(end_block(*n) - first_block(*n)));
    for (std::int32_t i = first_block(*n); i < end_block(*n); ++i) n->blocks.push_back(name(i));
    n->had_kv = true;
  }
  if (node.end % model::kBlockTokens != 0) node.tail = name(end_block(node));
  unlist(node);
  node.state = std::move(state);
  for (ForestNode* n = &node; n != nullptr; n = n->parent) ++n->states;
}

ForestFreed RadixForest::drop_state(ForestNode& node) {
  check(static_cast<bool>(node.state), "a state was dropped that is not there");
  ForestFreed freed;
  if (node.state.use_count() == 1) freed.states = 1;
  node.state = StateRef();
  if (node.tail >= 0) freed.blocks += release(std::exchange(node.tail, -1)) ? 1 : 0;
  for (ForestNode* n = &node; n != nullptr; n = n->parent) {
    if (--n->states > 0 || n == &root_) continue;
    for (const std::int32_t id : n->blocks) freed.blocks += release(id) ? 1 : 0;
    n->blocks = {};
  }
  list_if_forgettable(node);
  ForestNode& parent = *node.parent;
  merge_into_child(node);
  merge_into_child(parent);
  return freed;
}

std::vector<KvBlockRef> RadixForest::block_table(const ForestNode& node) const {
  std::vector<KvBlockRef> table(static_cast<std::size_t>(blocks_for(node.end)));
  if (node.tail >= 0) table.back() = held_[static_cast<std::size_t>(node.tail)].block;
  for (const ForestNode* n = &node; n != &root_; n = n->parent) {
    auto at = static_cast<std::size_t>(first_block(*n));
    for (const std::int32_t id : n->blocks) {
      table[at++] = held_[static_cast<std::size_t>(id)].block;
    }
  }
  return table;
}

std::int32_t RadixForest::exclusive_blocks(const ForestNode& node) const {
  const auto named_once = [&](std::int32_t id) {
    return held_[static_cast<std::size_t>(id)].names == 1 ? 1 : 0;
  };
  std::int32_t count = node.tail >= 0 ? named_once(node.tail) : 0;
  for (const ForestNode* n = &node; n != &root_ && n->states == 1; n = n->parent) {
    if (n->blocks.empty()) continue;
    // Only the first can be the tail of a state further up.
    count += static_cast<std::int32_t>(n->blocks.size()) - 1 + named_once(n->blocks.front());
  }
  return count;
}

std::int64_t RadixForest::unshared_blocks() const {
  std::int64_t count = 0;
  for (const Held& held : held_) count += held.names > 0 && held.block.use_count() == 1 ? 1 : 0;
  return count;
}

void RadixForest::verify() const {
  std::vector<std::int32_t> named(held_.size(), 0);
  std::vector<const ForestNode*> open{&root_};
  std::int64_t nodes = 0, tokens = 0, listed = 0;
  while (!open.empty()) {
    const ForestNode& n = *open.back();
    open.pop_back();
    std::int32_t states = n.state ? 1 : 0;
    for (std::size_t i = 0; i < n.children.size(); ++i) {
      const ForestNode::Child& c = n.children[i];
      check(i == 0 || n.children[i - 1].token < c.token, "children out of order");
      check(c.node->parent == &n && c.node->start == n.end, "a child hangs on another node");
      check(c.node->edge.front() == c.token, "a child under another token");
      states += c.node->states;
      open.push_back(c.node);
    }
    check(states == n.states, "states are miscounted");
    if (&n == &root_) continue;
    ++nodes;
    tokens += n.end - n.start;
    listed += n.listed ? 1 : 0;
    check(n.end > n.start && static_cast<std::int32_t>(n.edge.size()) == n.end - n.start,
          "an edge of another length");
    check(n.listed == (n.children.empty() && !n.state), "a leaf missing from the list");
    check(static_cast<std::int32_t>(n.blocks.size()) ==
              (n.states > 0 ? end_block(n) - first_block(n) : 0),
          "KV without a state below it, or a state without KV");
    check((n.tail >= 0) == (n.state && n.end % model::kBlockTokens != 0), "a tail without a state");
    for (const std::int32_t id : n.blocks) ++named[static_cast<std::size_t>(id)];
    if (n.tail >= 0) ++named[static_cast<std::size_t>(n.tail)];
  }
  check(nodes == node_count_ && tokens == token_count_, "nodes or tokens are miscounted");
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
