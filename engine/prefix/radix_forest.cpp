// SPDX-License-Identifier: Apache-2.0
// Paths: matching, inserting, splitting, merging, forgetting.
#include "engine/prefix/radix_forest.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace cairn::engine {

std::int32_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  // memcmp finds equal runs at memory speed but not where they end; 64 tokens are looked at twice.
  constexpr std::size_t kRun = 64;
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i + kRun <= n &&
         std::memcmp(a.data() + i, b.data() + i, kRun * sizeof(std::int32_t)) == 0) {
    i += kRun;
  }
  while (i < n && a[i] == b[i]) ++i;
  return static_cast<std::int32_t>(i);
}

namespace {

const ForestNode::Child* child_at(const ForestNode& node, std::int32_t token) {
  const auto it =
      std::lower_bound(node.children.begin(), node.children.end(), token,
                       [](const ForestNode::Child& c, std::int32_t t) { return c.token < t; });
  return it == node.children.end() || it->token != token ? nullptr : &*it;
}

}  // namespace

RadixForest::RadixForest() = default;

ForestNode* RadixForest::find_child(const ForestNode& node, std::int32_t token) const {
  ++work_.nodes_visited;
  const auto* child = child_at(node, token);
  return child == nullptr ? nullptr : child->node;
}

void RadixForest::replace_child(ForestNode& parent, ForestNode* node) {
  const auto* child = child_at(parent, node->edge.front());
  check(child != nullptr, "a node is missing among its parent's children");
  parent.children[static_cast<std::size_t>(child - parent.children.data())].node = node;
  node->parent = &parent;
}

ForestMatch RadixForest::match(std::span<const std::int32_t> tokens) const {
  const auto length = static_cast<std::int32_t>(tokens.size());
  ForestMatch m;
  const ForestNode* node = &root_;
  std::int32_t position = 0;
  bool partly = false;
  while (position < length) {
    ForestNode* child = find_child(*node, tokens[static_cast<std::size_t>(position)]);
    if (child == nullptr) break;
    const std::int32_t same =
        common_prefix(child->edge, tokens.subspan(static_cast<std::size_t>(position)));
    work_.tokens_compared += static_cast<std::uint64_t>(same);
    position += same;
    if (child->states > 0) {
      m.kv_matched = position;
    } else if (child->had_kv) {
      m.lost_kv += same;
    }
    partly = position < child->end;
    node = child;
    if (partly) break;
    if (child->state && child->end < length) m.resume = child;
  }
  m.overlap = position;
  m.inside_edge = position > 0 && (partly || (node->children.size() == 1 && !node->prompt_end));
  return m;
}

ForestNode* RadixForest::insert(std::span<const std::int32_t> tokens, std::uint64_t tick) {
  ForestNode* node = &root_;
  std::size_t position = 0;
  while (position < tokens.size()) {
    ForestNode* child = find_child(*node, tokens[position]);
    if (child == nullptr) return add_leaf(*node, tokens.subspan(position), tick);
    const std::int32_t same = common_prefix(child->edge, tokens.subspan(position));
    work_.tokens_compared += static_cast<std::uint64_t>(same);
    if (same < child->end - child->start) child = split(*child, same);
    touch(*child, tick);
    position += static_cast<std::size_t>(same);
    node = child;
  }
  return node;
}

ForestNode* RadixForest::make_node() {
  ForestNode* node = nullptr;
  if (free_.empty()) {
    node = &slab_.emplace_back();
  } else {
    node = free_.back();
    free_.pop_back();
  }
  node->serial = ++next_serial_;
  ++node_count_;
  return node;
}

void RadixForest::free_node(ForestNode* node) {
  *node = ForestNode{};
  free_.push_back(node);
  --node_count_;
}

ForestNode* RadixForest::add_leaf(ForestNode& parent, std::span<const std::int32_t> edge,
                                  std::uint64_t tick) {
  ForestNode* leaf = make_node();
  leaf->parent = &parent;
  leaf->start = parent.end;
  leaf->end = parent.end + static_cast<std::int32_t>(edge.size());
  leaf->edge.assign(edge.begin(), edge.end());
  leaf->seen = tick;
  token_count_ += static_cast<std::int64_t>(edge.size());
  const auto at =
      std::lower_bound(parent.children.begin(), parent.children.end(), edge.front(),
                       [](const ForestNode::Child& c, std::int32_t t) { return c.token < t; });
  parent.children.insert(at, {edge.front(), leaf});
  unlist(parent);
  list_if_forgettable(*leaf);
  return leaf;
}

// The lower part keeps the node, with its state and its children; the new node is the upper part.
ForestNode* RadixForest::split(ForestNode& lower, std::int32_t length) {
  ForestNode* upper = make_node();
  const auto cut = static_cast<std::ptrdiff_t>(length);
  upper->start = lower.start;
  upper->end = lower.start + length;
  upper->edge.assign(lower.edge.begin(), lower.edge.begin() + cut);
  upper->states = lower.states;
  upper->had_kv = lower.had_kv;
  upper->seen = lower.seen;
  replace_child(*lower.parent, upper);

  if (!lower.blocks.empty()) {
    const auto blocks = lower.blocks.begin() +
                        (upper->end / model::kBlockTokens - upper->start / model::kBlockTokens);
    upper->blocks.assign(lower.blocks.begin(), blocks);
    lower.blocks = std::vector<std::int32_t>(blocks, lower.blocks.end());
  }
  lower.edge = std::vector<std::int32_t>(lower.edge.begin() + cut, lower.edge.end());
  lower.start = upper->end;
  lower.parent = upper;
  upper->children.push_back({lower.edge.front(), &lower});
  return upper;
}

// Undoes a split that nothing needs any more: a node without state where no prompt ended and
// nothing forks.
void RadixForest::merge_into_child(ForestNode& node) {
  if (&node == &root_ || node.state || node.prompt_end || node.children.size() != 1) return;
  ForestNode& child = *node.children.front().node;
  if (node.had_kv != child.had_kv) return;
  const auto join = [](std::vector<std::int32_t>& upper, std::vector<std::int32_t>& lower) {
    upper.insert(upper.end(), lower.begin(), lower.end());
    lower = std::move(upper);
  };
  join(node.blocks, child.blocks);
  join(node.edge, child.edge);
  child.start = node.start;
  replace_child(*node.parent, &child);
  free_node(&node);
}

void RadixForest::touch(ForestNode& node, std::uint64_t tick) {
  if (node.seen == tick) return;
  unlist(node);
  node.seen = tick;
  list_if_forgettable(node);
}

void RadixForest::list_if_forgettable(ForestNode& node) {
  if (node.listed || &node == &root_ || node.state || !node.children.empty()) return;
  leaves_.emplace(std::pair(node.seen, node.serial), &node);
  node.listed = true;
}

void RadixForest::unlist(ForestNode& node) {
  if (!node.listed) return;
  leaves_.erase({node.seen, node.serial});
  node.listed = false;
}

bool RadixForest::forget_one() {
  if (leaves_.empty()) return false;
  ForestNode& leaf = *leaves_.begin()->second;
  unlist(leaf);
  ForestNode& parent = *leaf.parent;
  const auto* child = child_at(parent, leaf.edge.front());
  parent.children.erase(parent.children.begin() + (child - parent.children.data()));
  token_count_ -= static_cast<std::int64_t>(leaf.edge.size());
  free_node(&leaf);
  list_if_forgettable(parent);
  merge_into_child(parent);
  return true;
}

void RadixForest::trim(std::int64_t max_nodes, std::int64_t max_tokens) {
  while ((node_count_ > max_nodes || token_count_ > max_tokens) && forget_one()) {
  }
}

void RadixForest::clear() {
  root_ = ForestNode{};
  leaves_.clear();
  free_.clear();
  slab_.clear();
  held_.clear();
  node_count_ = token_count_ = block_count_ = 0;
}

}  // namespace cairn::engine
