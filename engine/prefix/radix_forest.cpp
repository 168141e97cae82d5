// SPDX-License-Identifier: Apache-2.0
// Paths: matching, inserting, splitting, merging, forgetting.
#include "engine/prefix/radix_forest.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace cairn::engine {

std::int32_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  // memcmp finds equal runs at memory speed but not where they end; 64 tokens are looked at twice,
  // and once more the last 8, which short edges have time for.
  constexpr std::size_t kRun = 64, kShort = 8;
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i + kRun <= n &&
         std::memcmp(a.data() + i, b.data() + i, kRun * sizeof(std::int32_t)) == 0) {
    i += kRun;
  }
  for (; i + kShort <= n; i += kShort) {
    std::int32_t differ = 0;
    for (std::size_t j = i; j < i + kShort; ++j) differ |= a[j] ^ b[j];
    if (differ != 0) break;
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

RadixForest::RadixForest(ByteCosts costs) : tree_(costs) {}

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

ForestMatch RadixForest::match(std::span<const std::int32_t> tokens, std::string_view scope) const {
  const auto length = static_cast<std::int32_t>(tokens.size());
  ForestMatch m;
  const auto root = scopes_.find(scope);
  if (root == scopes_.end()) return m;
  const ForestNode* node = &root->second;
  std::int32_t position = 0;
  while (position < length) {
    ForestNode* child = find_child(*node, tokens[static_cast<std::size_t>(position)]);
    if (child == nullptr) break;
    __builtin_prefetch(child->children.data());  // while the edge is compared
    const std::int32_t same =
        common_prefix(child->edge, tokens.subspan(static_cast<std::size_t>(position)));
    work_.tokens_compared += static_cast<std::uint64_t>(same);
    position += same;
    if (child->needs > 0) {
      m.kv_matched = position;
    } else {
      m.lost_kv += std::max(std::min(position, child->kv_once) - child->start, 0);
    }
    node = child;
    m.last = child;
    if (position < child->end) break;
    if (child->needs > 0 && child->state && child->end < length) m.resume = child;
  }
  m.overlap = position;
  if (m.last != nullptr) m.last_serial = m.last->serial;
  return m;
}

ForestNode* RadixForest::insert(std::span<const std::int32_t> tokens, std::uint64_t tick,
                                std::string_view scope) {
  check(!tokens.empty(), "a path without tokens");
  auto root = scopes_.find(scope);
  if (root == scopes_.end()) {
    root = scopes_.try_emplace(std::string(scope)).first;
    root->second.name = scope;
  }
  return insert_below(root->second, tokens, tick);
}

ForestNode* RadixForest::insert_below(ForestNode& above, std::span<const std::int32_t> tokens,
                                      std::uint64_t tick) {
  ForestNode* node = &above;
  auto position = static_cast<std::size_t>(above.end);
  while (position < tokens.size()) {
    ForestNode* child = find_child(*node, tokens[position]);
    if (child == nullptr) return add_leaf(*node, tokens.subspan(position), tick);
    const std::int32_t same = common_prefix(child->edge, tokens.subspan(position));
    work_.tokens_compared += static_cast<std::uint64_t>(same);
    if (same < child->end - child->start) child = split(*child, same);
    position += static_cast<std::size_t>(same);
    node = child;
  }
  touch(*node, tick);
  return node;
}

ForestNode* RadixForest::insert_above(ForestNode& below, std::int32_t position,
                                      std::uint64_t tick) {
  check(position > 0 && position <= below.end, "a place that is not on the path");
  ForestNode* node = &below;
  while (node->start >= position) node = node->parent;
  if (position < node->end) node = split(*node, position - node->start);
  touch(*node, tick);
  return node;
}

ForestNode* RadixForest::make_node(PlanNode plan) {
  ForestNode* node = nullptr;
  if (free_.empty()) {
    node = &slab_.emplace_back();
  } else {
    node = free_.back();
    free_.pop_back();
  }
  node->serial = ++next_serial_;
  node->plan = plan;
  if (plan >= by_plan_.size()) by_plan_.resize(tree_.slots());
  by_plan_[plan] = node;
  return node;
}

void RadixForest::free_node(ForestNode* node) {
  by_plan_[node->plan] = nullptr;
  *node = ForestNode{};
  free_.push_back(node);
}

ForestNode* RadixForest::add_leaf(ForestNode& parent, std::span<const std::int32_t> edge,
                                  std::uint64_t tick) {
  const std::int32_t end = parent.end + static_cast<std::int32_t>(edge.size());
  ForestNode* leaf = make_node(tree_.add_leaf(parent.plan, end));
  leaf->parent = &parent;
  leaf->start = parent.end;
  leaf->end = end;
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
  ForestNode* upper = make_node(tree_.split(lower.plan, lower.start + length));
  const auto cut = static_cast<std::ptrdiff_t>(length);
  upper->start = lower.start;
  upper->end = lower.start + length;
  upper->edge.assign(lower.edge.begin(), lower.edge.begin() + cut);
  upper->needs = lower.needs > 0 ? 1 : 0;
  upper->kv_once = std::min(lower.kv_once, upper->end);
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

// Undoes a split that nothing needs any more: a node without claim where no statistics are kept and
// nothing forks.
void RadixForest::merge_into_child(ForestNode& node) {
  if (node.parent == nullptr || node.point || node.children.size() != 1) return;
  if (claim(node) != Claim::none) return;
  ForestNode& child = *node.children.front().node;
  const auto join = [](std::vector<std::int32_t>& upper, std::vector<std::int32_t>& lower) {
    upper.insert(upper.end(), lower.begin(), lower.end());
    lower = std::move(upper);
  };
  join(node.blocks, child.blocks);
  join(node.edge, child.edge);
  child.start = node.start;
  child.kv_once = std::max(child.kv_once, node.kv_once);
  node.parent->seen = std::max(node.parent->seen, node.seen);
  replace_child(*node.parent, &child);
  tree_.merge(node.plan);
  free_node(&node);
}

void RadixForest::claim_is_gone(ForestNode& node) {
  list_if_forgettable(node);
  merge_into_child(node);
}

// Only where a request ends: those above hear of it when the node goes, and are not forgotten
// before.
void RadixForest::touch(ForestNode& node, std::uint64_t tick) {
  if (node.seen == tick) return;
  unlist(node);
  node.seen = tick;
  list_if_forgettable(node);
}

void RadixForest::list_if_forgettable(ForestNode& node) {
  if (node.listed || node.parent == nullptr || !node.children.empty()) return;
  if (claim(node) != Claim::none) return;
  leaves_.emplace(std::pair(node.seen, node.serial), &node);
  node.listed = true;
}

void RadixForest::unlist(ForestNode& node) {
  if (!node.listed) return;
  leaves_.erase({node.seen, node.serial});
  node.listed = false;
}

void RadixForest::forget(ForestNode& leaf) {
  unlist(leaf);
  ForestNode& parent = *leaf.parent;
  const auto* child = child_at(parent, leaf.edge.front());
  parent.children.erase(parent.children.begin() + (child - parent.children.data()));
  parent.seen = std::max(parent.seen, leaf.seen);
  token_count_ -= static_cast<std::int64_t>(leaf.edge.size());
  tree_.remove(leaf.plan);
  free_node(&leaf);
  if (parent.parent == nullptr) {
    if (parent.children.empty()) scopes_.erase(scopes_.find(static_cast<Scope&>(parent).name));
    return;
  }
  list_if_forgettable(parent);
  merge_into_child(parent);
}

void RadixForest::trim(const ForestLimits& limits) {
  while (!leaves_.empty()) {
    const auto& [key, leaf] = *leaves_.begin();
    const bool idle = key.first < limits.seen_since;
    if (!idle && nodes() <= limits.max_nodes && token_count_ <= limits.max_tokens) return;
    forget(*leaf);
  }
}

void RadixForest::clear() {
  tree_.clear();
  scopes_.clear();
  leaves_.clear();
  free_.clear();
  by_plan_.clear();
  slab_.clear();
  held_.clear();
  token_count_ = block_count_ = state_count_ = 0;
}

}  // namespace cairn::engine
