// SPDX-License-Identifier: Apache-2.0
// What nodes hold: states, KV blocks, and the check of the forest's invariants.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "engine/prefix/radix_forest.hpp"

namespace cairn::engine {
namespace {

std::int32_t first_block(const ForestNode& node) { return node.start / model::kBlockTokens; }
std::int32_t block_count(const ForestNode& node) {
  return blocks_for(node.end) - first_block(node);
}

}  // namespace

void RadixForest::hold(const KvBlockRef& block) {
  const auto id = static_cast<std::size_t>(block.id());
  if (id >= held_.size()) held_.resize(std::max(id + 1, held_.size() * 2));
  if (held_[id].nodes++ == 0) {
    held_[id].block = block;
    ++block_count_;
  }
}

bool RadixForest::release(std::int32_t id) {
  Held& held = held_[static_cast<std::size_t>(id)];
  if (--held.nodes > 0) return false;
  const bool last = held.block.use_count() == 1;
  held.block = KvBlockRef();
  --block_count_;
  return last;
}

void RadixForest::set_state(ForestNode& node, StateRef state, std::span<const KvBlockRef> blocks) {
  check(&node != &root_ && !node.state && state, "a state needs a node without one");
  check(static_cast<std::int32_t>(blocks.size()) >= blocks_for(node.end),
        "a state came without the KV of its prefix");
  for (ForestNode* n = &node; n != &root_ && n->blocks.empty(); n = n->parent) {
    const std::int32_t first = first_block(*n);
    n->blocks.reserve(static_cast<std::size_t>(block_count(*n)));
    for (std::int32_t i = first; i < blocks_for(n->end); ++i) {
      const KvBlockRef& block = blocks[static_cast<std::size_t>(i)];
      hold(block);
      n->blocks.push_back(block.id());
    }
    n->had_kv = true;
  }
  unlist(node);
  node.state = std::move(state);
  for (ForestNode* n = &node; n != nullptr; n = n->parent) ++n->states;
}

ForestFreed RadixForest::drop_state(ForestNode& node) {
  check(static_cast<bool>(node.state), "a state was dropped that is not there");
  ForestFreed freed;
  if (node.state.use_count() == 1) freed.states = 1;
  node.state = StateRef();
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
  std::int32_t missing = blocks_for(node.end);  // indices below have no version yet
  for (const ForestNode* n = &node; n != &root_; n = n->parent) {
    const std::int32_t first = first_block(*n);
    while (missing > first) {
      --missing;
      const std::int32_t id = n->blocks[static_cast<std::size_t>(missing - first)];
      table[static_cast<std::size_t>(missing)] = held_[static_cast<std::size_t>(id)].block;
    }
  }
  return table;
}

std::int32_t RadixForest::exclusive_blocks(const ForestNode& node) const {
  // Inner blocks of a node are its own. One at an end may be named by neighbours too: it goes when
  // all who name it go.
  std::int32_t count = 0;
  std::vector<std::int32_t> ends;
  for (const ForestNode* n = &node; n != &root_ && n->states == 1; n = n->parent) {
    const auto size = static_cast<std::int32_t>(n->blocks.size());
    count += std::max(size - 2, 0);
    ends.push_back(n->blocks.front());
    if (size > 1) ends.push_back(n->blocks.back());
  }
  std::sort(ends.begin(), ends.end());
  for (std::size_t i = 0; i < ends.size();) {
    std::size_t j = i;
    while (j < ends.size() && ends[j] == ends[i]) ++j;
    if (held_[static_cast<std::size_t>(ends[i])].nodes == static_cast<std::int32_t>(j - i)) ++count;
    i = j;
  }
  return count;
}

std::int64_t RadixForest::unshared_blocks() const {
  std::int64_t count = 0;
  for (const Held& held : held_) count += held.nodes > 0 && held.block.use_count() == 1 ? 1 : 0;
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
    check(n.blocks.size() ==
              (n.states > 0 ? static_cast<std::size_t>(block_count(n)) : std::size_t{0}),
          "KV without a state below it, or a state without KV");
    for (const std::int32_t id : n.blocks) ++named[static_cast<std::size_t>(id)];
  }
  check(nodes == node_count_ && tokens == token_count_, "nodes or tokens are miscounted");
  check(listed == static_cast<std::int64_t>(leaves_.size()), "the list of leaves is off");
  std::int64_t blocks = 0;
  for (std::size_t id = 0; id < held_.size(); ++id) {
    check(named[id] == held_[id].nodes, "a block's namers are miscounted");
    check((named[id] > 0) == static_cast<bool>(held_[id].block), "a block is held for nobody");
    blocks += named[id] > 0 ? 1 : 0;
  }
  check(blocks == block_count_, "blocks are miscounted");
}

}  // namespace cairn::engine
