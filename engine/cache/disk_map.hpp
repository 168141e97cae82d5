// SPDX-License-Identifier: Apache-2.0
// What the disk tier holds, in memory: KV segments that continue one another, states that end on
// them, references by block. Lookups compare tokens and touch no file.
//
// A segment is a run of consecutive 16-token blocks that one save wrote. Whoever needs a block
// needs all before it, so the blocks of a segment that are still needed are its first ones: what is
// freed is always a segment's tail or all of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/placement/state_kind.hpp"

namespace cairn::engine {

using DiskId = std::uint64_t;  // of segments and states alike, never 0, ascending

/// The first `blocks` blocks of a segment and all before them; segment 0: no block at all.
struct ChainEnd {
  DiskId segment = 0;
  std::uint32_t blocks = 0;
  bool operator==(const ChainEnd&) const = default;
};

struct DiskSegment {
  DiskId id = 0;
  ChainEnd parent;
  std::string scope;
  std::vector<std::int32_t> tokens;  // [16 * blocks]
};

struct DiskStateInfo {
  DiskId id = 0;
  ChainEnd chain;
  std::string scope;
  std::vector<std::int32_t> tail;  // the tokens after the last whole block, < 16
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
  std::int64_t last_use_ms = 0;  // Unix time
  double rate = 0;               // of requests predicted to come this far, per request served
  std::uint64_t rated_at = 0;    // requests that the store had been told of when it was predicted
};

/// What became needless: segments to delete, segments to cut to so many blocks.
struct DiskFreed {
  std::vector<DiskId> segments;
  std::vector<ChainEnd> cuts;
};

/// Not thread-safe.
class DiskMap {
 public:
  const std::map<DiskId, DiskStateInfo>& states() const { return states_; }
  const DiskStateInfo* state(DiskId id) const;
  std::size_t segments() const { return segments_.size(); }
  bool has_segment(DiskId id) const { return segments_.count(id) != 0; }
  std::vector<DiskId> segment_ids() const;
  std::uint64_t blocks() const { return blocks_; }
  const DiskSegment& segment(DiskId id) const { return node(id).data; }
  std::uint32_t blocks_of(DiskId segment) const { return node(segment).blocks(); }

  /// The whole blocks of `tokens` that are here.
  ChainEnd match_chain(std::string_view scope, std::span<const std::int32_t> tokens) const;
  /// The deepest state that ends at or before min(max_position, tokens.size()).
  const DiskStateInfo* match(std::string_view scope, std::span<const std::int32_t> tokens,
                             std::int32_t max_position) const;
  /// The state at exactly the end of `tokens`.
  const DiskStateInfo* find(std::string_view scope, std::span<const std::int32_t> tokens) const;

  /// The deepest other state on the path of one that is here; null: there is none. `extra` counts
  /// as if it were here, too: a state that continues blocks of this map, or starts new ones.
  const DiskStateInfo* above(const DiskStateInfo& state, const DiskStateInfo* extra) const;

  /// Segments from the first block to the chain's end, each with how many of its blocks.
  std::vector<ChainEnd> path(ChainEnd end) const;
  std::int32_t tokens_in(ChainEnd end) const;
  std::vector<std::int32_t> tokens_of(const DiskStateInfo& state) const;

  /// Whether the segment's or state's parts agree with what is here; only such may be added.
  bool fits(const DiskSegment& segment) const;
  bool fits(const DiskStateInfo& state) const;
  /// A new segment is needed by nobody until a state, a pin or another segment ends on it.
  void add(DiskSegment segment);
  void add(DiskStateInfo state);
  void touch(DiskId state, std::int64_t now_ms);
  void predict(DiskId state, double rate, std::uint64_t rated_at);

  /// Keeps a chain while states around it go.
  void pin(ChainEnd end);
  DiskFreed unpin(ChainEnd end);
  DiskFreed remove(DiskId state);
  /// Frees segments that nobody needs (a fresh load can have them).
  DiskFreed remove_unused();
  /// States that need more than the first `blocks` blocks of the segment.
  std::vector<DiskId> states_beyond(ChainEnd end) const;

  /// Blocks, and of these whole segments, that removing a state frees.
  struct Gain {
    std::uint64_t blocks = 0;
    std::vector<DiskId> segments;
  };
  /// Of `state` alone.
  Gain gain_of(const DiskStateInfo& state) const;

  /// Adds up what removing states one after the other would free, without removing.
  class Preview {
   public:
    explicit Preview(const DiskMap& map) : map_(map) {}
    /// What `state` would free after those before it.
    Gain remove(DiskId state);

   private:
    const DiskMap& map_;
    std::unordered_map<DiskId, std::vector<std::uint32_t>> refs_;  // of the segments touched
  };

 private:
  struct Node {
    DiskSegment data;
    std::int32_t first_position = 0;  // tokens before it
    std::vector<std::uint64_t> keys;  // [blocks]: hash of scope and all tokens up to block i's end
    std::vector<std::uint32_t> refs;  // [blocks]: how many end on block i
    std::uint32_t blocks() const { return static_cast<std::uint32_t>(refs.size()); }
  };

  const Node& node(DiskId id) const;
  Node& node(DiskId id) { return const_cast<Node&>(std::as_const(*this).node(id)); }
  std::uint64_t key_of(std::string_view scope, ChainEnd end) const;
  std::optional<ChainEnd> next_block(std::string_view scope, ChainEnd at, std::uint64_t key,
                                     std::span<const std::int32_t> tokens) const;
  template <class Visit>
  ChainEnd walk(std::string_view scope, std::span<const std::int32_t> tokens,
                const Visit& visit) const;
  const DiskStateInfo* best_at(std::string_view scope, ChainEnd at, std::uint64_t key,
                               std::span<const std::int32_t> rest) const;
  void release(ChainEnd end, DiskFreed& freed);
  void forget_blocks(const Node& node, std::uint32_t from);

  std::unordered_map<DiskId, Node> segments_;
  std::map<DiskId, DiskStateInfo> states_;
  std::unordered_multimap<std::uint64_t, ChainEnd> blocks_by_key_;
  std::unordered_multimap<std::uint64_t, DiskId> states_by_key_;  // key of their last whole block
  std::uint64_t blocks_ = 0;
};

}  // namespace cairn::engine
