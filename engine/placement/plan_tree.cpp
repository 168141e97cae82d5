// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_tree.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

constexpr std::uint32_t few(std::int32_t claims) { return claims > 1 ? 2U : claims == 1 ? 1U : 0U; }

}  // namespace

PlanTree::PlanTree(ByteCosts costs) : costs_(costs) {
  check(costs_.kv_block > 0, "KV blocks hold at least one token");
  nodes_.emplace_back();
  ups_.emplace_back();
  nodes_[kPlanRoot].used = true;
}

PlanTree::PlanTree(const PlanTree& other)
    : costs_(other.costs_),
      nodes_(other.nodes_),
      ups_(other.ups_),
      counts_(other.counts_),
      free_(other.free_),
      claimed_(other.claimed_),
      size_(other.size_),
      kv_blocks_(other.kv_blocks_) {}

PlanNode PlanTree::make(std::int32_t depth) {
  PlanNode slot = 0;
  if (free_.empty()) {
    slot = static_cast<PlanNode>(nodes_.size());
    check(slot < kNoUp, "slots are counted in 29 bits");
    nodes_.emplace_back();
    ups_.emplace_back();
    counts_.push_back(0);
  } else {
    slot = free_.back();
    free_.pop_back();
    nodes_[slot] = Node{};
  }
  nodes_[slot].used = true;
  nodes_[slot].depth = depth;
  ++size_;
  return slot;
}

void PlanTree::free(PlanNode node) {
  nodes_[node] = Node{};
  ups_[node] = Up{};
  counts_[node] = 0;
  free_.push_back(node);
  --size_;
}

void PlanTree::link(PlanNode parent, PlanNode child) {
  Node& c = nodes_[child];
  c.parent = parent;
  ups_[child].parent = parent & kNoUp;
  c.prev = kNoPlanNode;
  c.next = nodes_[parent].first_child;
  if (c.next != kNoPlanNode) nodes_[c.next].prev = child;
  nodes_[parent].first_child = child;
}

void PlanTree::unlink(PlanNode child) {
  Node& c = nodes_[child];
  if (c.prev != kNoPlanNode) {
    nodes_[c.prev].next = c.next;
  } else {
    nodes_[c.parent].first_child = c.next;
  }
  if (c.next != kNoPlanNode) nodes_[c.next].prev = c.prev;
  c.parent = c.next = c.prev = kNoPlanNode;
  ups_[child].parent = kNoUp;
}

// A node owns the blocks whose last slot lies on its edge; a claim that ends inside a block owns
// its own version of that one.
std::int64_t PlanTree::edge_blocks(PlanNode node) const {
  const Node& n = nodes_[node];
  return n.depth / costs_.kv_block - nodes_[n.parent].depth / costs_.kv_block;
}

void PlanTree::tell_before(const TreeOp& op) {
  for (TreeListener* l : listeners_) l->changing(op);
}

void PlanTree::tell(const TreeOp& op) {
  for (TreeListener* l : listeners_) l->changed(op);
}

PlanNode PlanTree::add_leaf(PlanNode parent, std::int32_t depth) {
  check(nodes_[parent].used && depth > nodes_[parent].depth, "a leaf lies below its parent");
  const PlanNode node = make(depth);
  link(parent, node);
  tell({.type = TreeOp::Type::leaf, .node = node, .other = parent, .depth = depth});
  return node;
}

PlanNode PlanTree::split(PlanNode lower, std::int32_t depth) {
  const PlanNode parent = nodes_[lower].parent;
  check(parent != kNoPlanNode && depth > nodes_[parent].depth && depth < nodes_[lower].depth,
        "a split lies inside an edge");
  const PlanNode upper = make(depth);
  unlink(lower);
  link(parent, upper);
  link(upper, lower);
  counts_[upper] = counts_[lower];
  ups_[upper].claims = ups_[lower].claims;
  tell({.type = TreeOp::Type::split, .node = upper, .other = lower, .depth = depth});
  return upper;
}

void PlanTree::merge(PlanNode node) {
  const PlanNode child = nodes_[node].first_child;
  check(node != kPlanRoot && nodes_[node].claim == Claim::none && child != kNoPlanNode &&
            nodes_[child].next == kNoPlanNode,
        "only a node with one child and no claim is merged");
  const TreeOp op{.type = TreeOp::Type::merge, .node = node, .other = child};
  tell_before(op);
  const PlanNode parent = nodes_[node].parent;
  unlink(child);
  unlink(node);
  link(parent, child);
  free(node);
  tell(op);
}

void PlanTree::remove(PlanNode leaf) {
  check(leaf != kPlanRoot && nodes_[leaf].used && nodes_[leaf].first_child == kNoPlanNode &&
            nodes_[leaf].claim == Claim::none,
        "only a leaf without a claim is removed");
  const TreeOp op{.type = TreeOp::Type::remove, .node = leaf};
  tell_before(op);
  unlink(leaf);
  free(leaf);
  tell(op);
}

void PlanTree::clear() {
  const TreeOp op{.type = TreeOp::Type::clear};
  tell_before(op);
  nodes_.resize(1);
  ups_.assign(1, Up{});
  counts_.assign(1, 0);
  nodes_[kPlanRoot] = Node{};
  nodes_[kPlanRoot].used = true;
  free_.clear();
  claimed_.clear();
  size_ = 0;
  kv_blocks_ = 0;
  tell(op);
}

void PlanTree::count_claim(PlanNode node, std::int32_t by) {
  if (nodes_[node].depth % costs_.kv_block != 0) kv_blocks_ += by;
  for (PlanNode n = node; n != kNoPlanNode; n = parent(n)) {
    const std::int32_t before = counts_[n];
    counts_[n] += by;
    ups_[n].claims = few(counts_[n]) & 3U;
    if (n != kPlanRoot && (before == 0) != (counts_[n] == 0)) kv_blocks_ += by * edge_blocks(n);
  }
}

void PlanTree::claim(PlanNode node, Claim claim, StateKind kind) {
  Node& n = nodes_[node];
  check(node != kPlanRoot && n.used && claim != Claim::none, "a claim needs a node");
  check(n.claim == Claim::none || (n.claim == Claim::pending && claim == Claim::stored),
        "a node is claimed once");
  const Claim before = n.claim;
  if (before == Claim::none) {
    count_claim(node, 1);
    n.listed = static_cast<std::int32_t>(claimed_.size());
    claimed_.push_back(node);
  }
  n.claim = claim;
  ups_[node].claimed = 1;
  n.kind = kind;
  tell({.type = TreeOp::Type::claim, .claim = claim, .before = before, .kind = kind, .node = node});
}

void PlanTree::release(PlanNode node) {
  check(nodes_[node].used && nodes_[node].claim != Claim::none, "only a claim can be released");
  const TreeOp op{.type = TreeOp::Type::release, .claim = nodes_[node].claim, .node = node};
  tell_before(op);
  nodes_[node].claim = Claim::none;
  ups_[node].claimed = 0;
  count_claim(node, -1);
  const PlanNode last = claimed_.back();
  nodes_[last].listed = nodes_[node].listed;
  claimed_[static_cast<std::size_t>(nodes_[node].listed)] = last;
  claimed_.pop_back();
  nodes_[node].listed = -1;
  tell(op);
}

void PlanTree::apply(const TreeOp& op) {
  switch (op.type) {
    case TreeOp::Type::leaf:
      check(add_leaf(op.other, op.depth) == op.node, "a replica went another way");
      break;
    case TreeOp::Type::split:
      check(split(op.other, op.depth) == op.node, "a replica went another way");
      break;
    case TreeOp::Type::merge:
      merge(op.node);
      break;
    case TreeOp::Type::remove:
      remove(op.node);
      break;
    case TreeOp::Type::claim:
      claim(op.node, op.claim, op.kind);
      break;
    case TreeOp::Type::release:
      release(op.node);
      break;
    case TreeOp::Type::clear:
      clear();
      break;
  }
}

std::uint64_t PlanTree::bytes() const {
  const std::uint64_t block =
      costs_.kv_bytes_per_token * static_cast<std::uint64_t>(costs_.kv_block);
  return static_cast<std::uint64_t>(claims()) * costs_.state_bytes +
         static_cast<std::uint64_t>(kv_blocks_) * block;
}

// With `own` claims of its own at the node: edges upwards until another claim needs them.
std::uint64_t PlanTree::added_bytes(PlanNode node) const {
  const std::uint32_t own = claimed(node) ? 1 : 0;
  PlanNode shared = node;
  while (shared != kPlanRoot && ups_[shared].claims == own) shared = ups_[shared].parent;
  const std::int32_t depth = nodes_[node].depth;
  const std::int64_t blocks = depth / costs_.kv_block - nodes_[shared].depth / costs_.kv_block +
                              (depth % costs_.kv_block != 0 ? 1 : 0);
  return costs_.state_bytes + costs_.kv_bytes_per_token *
                                  static_cast<std::uint64_t>(costs_.kv_block) *
                                  static_cast<std::uint64_t>(blocks);
}

std::uint64_t PlanTree::exclusive_bytes(PlanNode node) const {
  check(nodes_[node].claim != Claim::none, "only a claim holds bytes");
  return added_bytes(node);
}

std::uint64_t PlanTree::bytes_alone(std::int32_t depth) const {
  const std::int64_t blocks = depth / costs_.kv_block + (depth % costs_.kv_block != 0 ? 1 : 0);
  return costs_.state_bytes + costs_.kv_bytes_per_token *
                                  static_cast<std::uint64_t>(costs_.kv_block) *
                                  static_cast<std::uint64_t>(blocks);
}

PlanNode PlanTree::claim_above(PlanNode node) const {
  PlanNode n = parent(node);
  while (n != kNoPlanNode && n != kPlanRoot && !claimed(n)) n = parent(n);
  return n == kNoPlanNode ? kPlanRoot : n;
}

void PlanTree::top_down(std::vector<PlanNode>& out) const {
  out.clear();
  out.push_back(kPlanRoot);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (PlanNode c = nodes_[out[i]].first_child; c != kNoPlanNode; c = nodes_[c].next) {
      out.push_back(c);
    }
  }
}

void PlanTree::verify() const {
  std::vector<PlanNode> order;
  top_down(order);
  check(static_cast<std::int64_t>(order.size()) == size_ + 1, "nodes were lost");
  std::vector<std::int32_t> claims(nodes_.size(), 0);
  std::int64_t blocks = 0;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& n = nodes_[*it];
    check(n.used, "a free slot hangs in the tree");
    check(parent(*it) == n.parent && claimed(*it) == (n.claim != Claim::none) &&
              ups_[*it].claims == few(counts_[*it]),
          "walks go another way");
    claims[*it] += n.claim == Claim::none ? 0 : 1;
    check(claims[*it] == counts_[*it], "claims are counted wrongly");
    if (n.claim != Claim::none && n.depth % costs_.kv_block != 0) ++blocks;
    if (*it == kPlanRoot) continue;
    check(n.depth > nodes_[n.parent].depth, "depths must grow along a path");
    claims[n.parent] += claims[*it];
    if (counts_[*it] > 0) blocks += edge_blocks(*it);
  }
  check(blocks == kv_blocks_, "KV is counted wrongly");
  check(std::ssize(claimed_) == this->claims(), "claims were lost");
  for (std::size_t i = 0; i < claimed_.size(); ++i) {
    const Node& n = nodes_[claimed_[i]];
    check(n.claim != Claim::none && n.listed == static_cast<std::int32_t>(i),
          "a claim is listed elsewhere");
  }
}

}  // namespace cairn::engine
