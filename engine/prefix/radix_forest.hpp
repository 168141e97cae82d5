// SPDX-License-Identifier: Apache-2.0
// A compressed radix tree over tokens. Nodes remember paths; those with a state at or below them
// also hold the KV blocks of their edge.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/cache/pools.hpp"
#include "engine/placement/policy.hpp"

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
struct ForestNode {
  struct Child {
    std::int32_t token;
    ForestNode* node;
  };

  ForestNode* parent = nullptr;
  std::int32_t start = 0, end = 0;   // tokens before the edge, tokens at its end
  std::vector<std::int32_t> edge;    // [end - start]
  std::vector<Child> children;       // ascending first tokens
  std::vector<std::int32_t> blocks;  // ids, indices start/16 .. end/16 - 1; empty without KV
  std::int32_t tail = -1;            // id of index end/16: a state ends inside it
  std::int32_t states = 0;           // at this node or below; above 0: KV is here
  bool had_kv = false;               // blocks were here once
  bool prompt_end = false;           // some prompt ended here
  bool listed = false;               // in the forest's list of leaves that can be forgotten
  std::uint64_t serial = 0;          // order of making
  std::uint64_t seen = 0;            // tick of the last request that passed

  StateRef state;  // empty: none; otherwise KV is whole from 0 to `end`
  StateKind kind = StateKind::planned;
  std::uint64_t last_used = 0;  // tick of the state's last hit, or of its making
  std::uint64_t made = 0;       // order of making of the state
  double value = 0;             // its place in the eviction order (StateOrder)
};

/// What a prompt finds.
struct ForestMatch {
  std::int32_t overlap = 0;      // tokens shared with the deepest remembered path
  std::int32_t kv_matched = 0;   // of these, with whole KV
  std::int32_t lost_kv = 0;      // of the others, those whose KV was here once
  bool inside_edge = false;      // the overlap ends where no path ended or forked so far
  ForestNode* resume = nullptr;  // deepest state that leaves at least one token to compute
};

/// What dropping a state gave back to the pools: objects that nobody else holds.
struct ForestFreed {
  std::int64_t blocks = 0, states = 0;
};

/// Operations since construction, for tests and benchmarks.
struct ForestWork {
  std::uint64_t nodes_visited = 0, tokens_compared = 0;
};

/// Owned by one thread. Invariants, checked by verify(): a node has KV exactly when a state lies at
/// or below it; children differ in their first token; every node but the root has a non-empty edge;
/// a block is held once, however many name it. Memory: each token of a remembered edge is stored
/// once, 4 bytes, and a block reference takes 4 bytes.
class RadixForest {
 public:
  RadixForest();
  RadixForest(const RadixForest&) = delete;
  RadixForest& operator=(const RadixForest&) = delete;

  /// O(nodes on the path + tokens compared, runs by memcmp). Changes nothing.
  ForestMatch match(std::span<const std::int32_t> tokens) const;

  /// The node that ends at the end of `tokens`, made (by at most one split and one leaf) if there
  /// is none. Pointers to existing nodes stay valid; a split keeps the lower part's.
  ForestNode* insert(std::span<const std::int32_t> tokens, std::uint64_t tick);

  /// Gives `node`, which has none, a state; nodes above it without KV take `blocks` (by block
  /// index, from 0).
  void set_state(ForestNode& node, StateRef state, std::span<const KvBlockRef> blocks);
  /// Takes the state away and the KV that only it needed. `node` may be merged with a child or stay
  /// as a remembered path: the pointer is not to be used again.
  ForestFreed drop_state(ForestNode& node);

  /// Handles to the blocks of [0, node.end).
  std::vector<KvBlockRef> block_table(const ForestNode& node) const;
  /// Blocks that drop_state would let go.
  std::int32_t exclusive_blocks(const ForestNode& node) const;
  /// Blocks that nobody outside the forest holds.
  std::int64_t unshared_blocks() const;

  /// Forgets leaves without a state, least recently passed first, until both bounds hold or none is
  /// left.
  void trim(std::int64_t max_nodes, std::int64_t max_tokens);
  void clear();

  std::int64_t nodes() const { return node_count_; }  // the root not counted
  std::int64_t tokens() const { return token_count_; }
  std::int64_t blocks() const { return block_count_; }  // distinct
  std::int64_t states() const { return root_.states; }
  const ForestNode& root() const { return root_; }
  const ForestWork& work() const { return work_; }
  /// Throws InvariantError; O(everything).
  void verify() const;

 private:
  struct Held {
    KvBlockRef block;
    std::int32_t names = 0;  // nodes' blocks and states' tails
  };

  ForestNode* find_child(const ForestNode& node, std::int32_t token) const;
  void replace_child(ForestNode& parent, ForestNode* node);
  ForestNode* make_node();
  void free_node(ForestNode* node);
  ForestNode* add_leaf(ForestNode& parent, std::span<const std::int32_t> edge, std::uint64_t tick);
  ForestNode* split(ForestNode& lower, std::int32_t length);
  void merge_into_child(ForestNode& node);
  void touch(ForestNode& node, std::uint64_t tick);
  void list_if_forgettable(ForestNode& node);
  void unlist(ForestNode& node);
  bool forget_one();
  void hold(const KvBlockRef& block);
  bool release(std::int32_t id);  // true: the block went back to the pool

  ForestNode root_;
  std::deque<ForestNode> slab_;  // flat, so that no destructor recurses along a path
  std::vector<ForestNode*> free_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, ForestNode*> leaves_;  // (seen, serial)
  std::vector<Held> held_;                                                 // by block id
  std::int64_t node_count_ = 0, token_count_ = 0, block_count_ = 0;
  std::uint64_t next_serial_ = 0;
  mutable ForestWork work_;
};

}  // namespace cairn::engine
