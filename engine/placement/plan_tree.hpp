// SPDX-License-Identifier: Apache-2.0
// The planner's view of the prefix forest: its shape, depths and the states that are or will be
// kept, without tokens. The radix forest mirrors every change of its own shape into one; the
// planner keeps a replica of it by replaying the same changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/placement/state_kind.hpp"

namespace cairn::engine {

/// A node by slot; slots of removed nodes are used again, last freed first, so that replicas agree.
using PlanNode = std::uint32_t;
inline constexpr PlanNode kPlanRoot = 0;
inline constexpr PlanNode kNoPlanNode = 0xFFFF'FFFF;

/// What is kept at a node: nothing, a state that a running request will copy out, or a state.
enum class Claim : std::uint8_t { none, pending, stored };

/// Bytes of what is kept. KV is charged in whole blocks of `kv_block` tokens; 1: by token.
struct ByteCosts {
  std::uint64_t state_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::int32_t kv_block = 1;
};

/// One change of the tree. A log of them rebuilds it.
struct TreeOp {
  enum class Type : std::uint8_t { leaf, split, merge, remove, claim, release, clear };
  Type type = Type::leaf;
  Claim claim = Claim::none;            // claim: pending or stored; release: what it was
  Claim before = Claim::none;           // claim: none or pending
  StateKind kind = StateKind::planned;  // claim
  PlanNode node = kPlanRoot;            // leaf, split: the new node; else the node meant
  PlanNode other = kPlanRoot;           // leaf: its parent; split: the lower node
  std::int32_t depth = 0;               // leaf, split: tokens before the node's lower end
};

class TreeListener {
 public:
  virtual ~TreeListener() = default;
  /// Called after the change; for merge, remove and release also before it (see PlanTree).
  virtual void changed(const TreeOp& op) = 0;
  /// Before a node loses its place (merge, remove, clear) or its claim (release).
  virtual void changing(const TreeOp& op) = 0;
};

/// Owned by one thread. Invariants: depths grow along every path; a node is removed or merged only
/// without a claim.
class PlanTree {
 public:
  struct Node {
    PlanNode parent = kNoPlanNode;  // kNoPlanNode: the root, or a free slot
    PlanNode first_child = kNoPlanNode;
    PlanNode next = kNoPlanNode, prev = kNoPlanNode;  // siblings
    std::int32_t depth = 0;
    std::int32_t listed = -1;  // place in claimed()
    Claim claim = Claim::none;
    StateKind kind = StateKind::planned;
    bool used = false;  // the slot holds a node
  };

  explicit PlanTree(ByteCosts costs);
  /// The same tree, heard by nobody.
  PlanTree(const PlanTree& other);
  PlanTree& operator=(const PlanTree&) = delete;

  PlanNode add_leaf(PlanNode parent, std::int32_t depth);
  /// A new node between `lower` and its parent.
  PlanNode split(PlanNode lower, std::int32_t depth);
  /// Its only child takes over the edge of `node`, which has no claim.
  void merge(PlanNode node);
  /// A leaf without a claim.
  void remove(PlanNode leaf);
  void clear();

  /// none -> pending or stored, pending -> stored.
  void claim(PlanNode node, Claim claim, StateKind kind);
  void release(PlanNode node);

  /// Repeats a logged change; the slots come out the same.
  void apply(const TreeOp& op);

  const Node& operator[](PlanNode node) const { return nodes_[node]; }
  /// The same as the node says, for walks: four bytes a node, so that 100,000 stay in a core's own
  /// cache.
  PlanNode parent(PlanNode node) const {
    return ups_[node].parent == kNoUp ? kNoPlanNode : ups_[node].parent;
  }
  bool claimed(PlanNode node) const { return ups_[node].claimed != 0; }
  std::size_t slots() const { return nodes_.size(); }  // ids are below
  std::int64_t size() const { return size_; }          // nodes, the root not counted
  std::int64_t claims() const { return counts_[kPlanRoot]; }
  /// At the node or below.
  std::int32_t claims(PlanNode node) const { return counts_[node]; }
  /// The nodes with a claim, in an order that replicas share.
  const std::vector<PlanNode>& claimed() const { return claimed_; }
  const ByteCosts& costs() const { return costs_; }

  /// Of all claims: their states and the KV of every edge with a claim at or below it.
  std::uint64_t bytes() const;
  /// The state of a claimed node and the KV that goes with it: the edges that no other claim needs.
  /// O(nodes to the next claim or fork with one above).
  std::uint64_t exclusive_bytes(PlanNode node) const;
  /// The same for a node without a claim: what it would add.
  std::uint64_t added_bytes(PlanNode node) const;
  /// Of a claim at this depth with nothing else kept.
  std::uint64_t bytes_alone(std::int32_t depth) const;
  /// The nearest claimed proper ancestor; the root when there is none.
  PlanNode claim_above(PlanNode node) const;
  /// All nodes, parents before children. O(size).
  void top_down(std::vector<PlanNode>& out) const;

  /// Listeners are called in order and not owned.
  void listen(TreeListener* listener) { listeners_.push_back(listener); }

  /// Throws InvariantError; O(size).
  void verify() const;

 private:
  PlanNode make(std::int32_t depth);
  void free(PlanNode node);
  void link(PlanNode parent, PlanNode child);
  void unlink(PlanNode child);
  std::int64_t edge_blocks(PlanNode node) const;
  void count_claim(PlanNode node, std::int32_t by);
  void tell_before(const TreeOp& op);
  void tell(const TreeOp& op);

  static constexpr std::uint32_t kNoUp = (1U << 29) - 1;
  struct Up {
    std::uint32_t parent : 29 = kNoUp;
    std::uint32_t claimed : 1 = 0;
    std::uint32_t claims : 2 = 0;  // at or below: none, one, more
  };

  ByteCosts costs_;
  std::vector<Node> nodes_;
  std::vector<Up> ups_;                  // by slot
  std::vector<std::int32_t> counts_{0};  // by slot: claims at or below
  std::vector<PlanNode> free_;
  std::vector<PlanNode> claimed_;
  std::vector<TreeListener*> listeners_;
  std::int64_t size_ = 0;
  std::int64_t kv_blocks_ = 0;  // on edges with a claim at or below, and tails of claims
};

}  // namespace cairn::engine
