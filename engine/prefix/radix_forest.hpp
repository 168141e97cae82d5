// SPDX-License-Identifier: Apache-2.0
// A compressed radix tree over tokens for each scope. Nodes remember paths; those with a state at
// or below them also hold the KV blocks of their edge. The planner's tree mirrors its shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cache/pools.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

/// Length of the longest common prefix.
std::int32_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

/// One edge and its lower end. Owned by the forest; states sit on lower ends only.
///
/// KV blocks are copy-on-write. A node below which a state lies owns the blocks whose last slot is
/// on its edge, in the version of whoever brought them; a state that ends inside a block also names
/// its own version of that one. All slots of a version up to where it is used hold the node's path,
/// so a path's block table is the blocks of its nodes and the state's tail. A cut goes through no
/// block.
struct alignas(64) ForestNode {
  struct Child {
    std::int32_t token;
    ForestNode* node;
  };

  // A match reads this cache line of every node that it passes, and no other of most.
  std::vector<std::int32_t> edge;   // [end - start]
  std::vector<Child> children;      // ascending first tokens
  std::int32_t start = 0, end = 0;  // tokens before the edge, tokens at its end
  std::int32_t needs = 0;           // of its KV: its state, and each child with KV
  std::int32_t kv_once = 0;         // the edge's tokens before this position had KV once

  ForestNode* parent = nullptr;      // null: the root of a scope
  std::vector<std::int32_t> blocks;  // ids, indices start/16 .. end/16 - 1; empty without KV
  std::int32_t tail = -1;            // id of index end/16: a state ends inside it
  bool point = false;                // a prompt or an overlap ended here: it has statistics
  bool listed = false;               // in the forest's list of leaves that can be forgotten
  PlanNode plan = kPlanRoot;         // the same node in the planner's tree
  std::uint64_t serial = 0;          // order of making
  std::uint64_t seen =
      0;  // tick of the last request that ended here, or below where nothing is left

  StateRef state;  // empty: none; otherwise KV is whole from 0 to `end`
};

/// What a prompt finds.
struct ForestMatch {
  std::int32_t overlap = 0;       // tokens shared with the deepest remembered path
  std::int32_t kv_matched = 0;    // of these, with whole KV
  std::int32_t lost_kv = 0;       // of the others, those whose KV was here once
  ForestNode* resume = nullptr;   // deepest state that leaves at least one token to compute
  ForestNode* last = nullptr;     // on whose edge, or at whose end, the overlap ends
  std::uint64_t last_serial = 0;  // its own: the same while the node is
};

/// What dropping a state gave back to the pools: objects that nobody else holds.
struct ForestFreed {
  std::int64_t blocks = 0, states = 0;
};

/// Operations since construction, for tests and benchmarks.
struct ForestWork {
  std::uint64_t nodes_visited = 0, tokens_compared = 0;
};

/// Bounds of what is remembered without a claim.
struct ForestLimits {
  std::int64_t max_nodes = 0;
  std::int64_t max_tokens = 0;
  std::uint64_t seen_since = 0;  // leaves last passed before this tick are forgotten
};

/// Owned by one thread. Invariants, checked by verify(): a node has KV exactly when a state lies at
/// or below it; children differ in their first token; every node but a scope's root has a non-empty
/// edge; a block is held once, however many name it; the planner's tree has the same nodes, depths
/// and parents, all scopes below one root, and a stored claim exactly where a state is. A node
/// without claim that is no point and does not fork is merged with its child. Memory: each token of
/// a remembered edge is stored once, 4 bytes, and a block reference takes 4 bytes.
class RadixForest {
 public:
  explicit RadixForest(ByteCosts costs);
  RadixForest(const RadixForest&) = delete;
  RadixForest& operator=(const RadixForest&) = delete;

  /// Paths of other scopes are not seen. O(nodes on the path + tokens compared, runs by memcmp).
  /// Changes nothing.
  ForestMatch match(std::span<const std::int32_t> tokens, std::string_view scope = {}) const;

  /// The node that ends at the end of `tokens`, made (by at most one split and one leaf) if there
  /// is none. Pointers to existing nodes stay valid; a split keeps the lower part's.
  ForestNode* insert(std::span<const std::int32_t> tokens, std::uint64_t tick,
                     std::string_view scope = {});
  /// The same, where `above` is known to lie on the path of `tokens`.
  ForestNode* insert_below(ForestNode& above, std::span<const std::int32_t> tokens,
                           std::uint64_t tick);
  /// The node at `position` > 0 on the path to the end of `below`, made by a split if there is
  /// none. O(nodes between), no tokens are compared.
  ForestNode* insert_above(ForestNode& below, std::int32_t position, std::uint64_t tick);

  /// A running request will copy a state out at `node`, which has no claim.
  void set_pending(ForestNode& node, StateKind kind);
  /// It will not: `node` may be merged or stay as a remembered path, like after drop_state.
  void drop_pending(ForestNode& node);

  /// Gives `node`, which has none, a state; nodes above it without KV take `blocks` (by block
  /// index, from 0). A pending claim becomes a stored one.
  void set_state(ForestNode& node, StateRef state, StateKind kind,
                 std::span<const KvBlockRef> blocks);
  /// Takes the state away and the KV that only it needed. `node` may be merged with a child or stay
  /// as a remembered path: the pointer is not to be used again.
  ForestFreed drop_state(ForestNode& node);

  /// Handles to the blocks of [0, node.end).
  std::vector<KvBlockRef> block_table(const ForestNode& node) const;
  /// Blocks and states that nobody outside the forest holds. O(blocks + nodes).
  ForestFreed unshared() const;

  /// Forgets leaves without a claim, least recently passed first, until the limits hold or none is
  /// left.
  void trim(const ForestLimits& limits);
  void clear();

  std::int64_t nodes() const { return tree_.size(); }  // roots not counted
  std::int64_t tokens() const { return token_count_; }
  std::int64_t blocks() const { return block_count_; }  // distinct
  std::int64_t states() const { return state_count_; }
  std::int64_t scopes() const { return static_cast<std::int64_t>(scopes_.size()); }
  const ForestWork& work() const { return work_; }
  PlanTree& tree() { return tree_; }
  const PlanTree& tree() const { return tree_; }
  /// Null for the root and for free slots.
  ForestNode* node(PlanNode plan) const {
    return plan < by_plan_.size() ? by_plan_[plan] : nullptr;
  }
  Claim claim(const ForestNode& node) const { return tree_[node.plan].claim; }
  /// Throws InvariantError; O(everything).
  void verify() const;

 private:
  struct Held {
    KvBlockRef block;
    std::int32_t names = 0;  // nodes' blocks and states' tails
  };
  struct Scope : ForestNode {
    std::string name;
  };

  ForestNode* find_child(const ForestNode& node, std::int32_t token) const;
  void replace_child(ForestNode& parent, ForestNode* node);
  ForestNode* make_node(PlanNode plan);
  void free_node(ForestNode* node);
  ForestNode* add_leaf(ForestNode& parent, std::span<const std::int32_t> edge, std::uint64_t tick);
  ForestNode* split(ForestNode& lower, std::int32_t length);
  void merge_into_child(ForestNode& node);
  void claim_is_gone(ForestNode& node);
  void touch(ForestNode& node, std::uint64_t tick);
  void list_if_forgettable(ForestNode& node);
  void unlist(ForestNode& node);
  void forget(ForestNode& leaf);
  void hold(const KvBlockRef& block);
  bool release(std::int32_t id);  // true: the block went back to the pool
  void verify_node(const ForestNode& node) const;

  PlanTree tree_;
  std::map<std::string, Scope, std::less<>> scopes_;  // those with a path
  std::deque<ForestNode> slab_;  // flat, so that no destructor recurses along a path
  std::vector<ForestNode*> free_;
  std::vector<ForestNode*> by_plan_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, ForestNode*> leaves_;  // (seen, serial)
  std::vector<Held> held_;                                                 // by block id
  std::int64_t token_count_ = 0, block_count_ = 0, state_count_ = 0;
  std::uint64_t next_serial_ = 0;
  mutable ForestWork work_;
};

}  // namespace cairn::engine
