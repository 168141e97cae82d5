// SPDX-License-Identifier: Apache-2.0
// Predicted demand over the plan tree: statistics at points, the rate of every node, and what each
// kept state serves (placement.md sections 4 and 5).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/placement/hazard.hpp"
#include "engine/placement/interior.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

struct DemandOptions {
  double horizon = 64;          // of discounting, ticks
  double half_life = 4000;      // of the tables, ticks
  int sweep_every = 8;          // ticks
  std::uint64_t idle = 2048;    // ticks after which a point is forgotten, or, if that is more,
  std::uint64_t per_claim = 8;  // this many for each state: what turns over slowly comes back late
  std::uint64_t young = 4096;   // ticks for which a prompt's first split is waited for
  std::size_t atoms = 16;       // positions at which it is expected
  bool classes = true;          // kinds, hits, turns and gaps tell points apart
  bool turns = true;            // how many ends are above one tells it apart
  bool gaps = true;             // so does the time between a branch's last two events
  bool interior = true;         // first splits are predicted at all
  bool mixture = true;          // from where earlier prompts split; else evenly
};

/// Ticks after which what is idle is forgotten while there are so many claims.
inline std::uint64_t idle_limit(std::uint64_t least, std::uint64_t per_claim, std::int64_t claims) {
  return std::max(least, per_claim * static_cast<std::uint64_t>(claims));
}

/// A tree point: a prompt's end, a place where some overlap ended, or a position with a meaning
/// that was worth a state.
enum class PointKind : std::uint8_t { none, end, branch, turn, answer, pinned };
inline constexpr int kPointKinds = 6;

/// One sweep's result, published by the planner's replica and adopted by the policy. Immutable.
struct DemandRates {
  std::uint64_t tick = 0;  // of the sweep
  std::shared_ptr<const HazardRates> points, splits;
};

/// Owned by one thread: the policy's, and the planner's replica. Deterministic in the calls.
class DemandForest final : public TreeListener {
 public:
  explicit DemandForest(const PlanTree& tree, DemandOptions options = {});
  /// The statistics of `other` over a copy of its tree. What `other` adopted goes along, but every
  /// sweep here is made from the tables of its own.
  DemandForest(const PlanTree& tree, const DemandForest& other);
  DemandForest(const DemandForest&) = delete;
  DemandForest& operator=(const DemandForest&) = delete;

  void changing(const TreeOp& op) override;
  void changed(const TreeOp& op) override;

  /// One request. True when a sweep was due: the tables have been fed and all rates are new.
  bool observe(const RequestView& request);
  /// Adopts tables that were computed elsewhere from the same requests; sweeps are then made from
  /// them until they are more than `kStale` ticks old. Older ones, and those of a tick that was not
  /// seen here yet, are ignored.
  void adopt(std::shared_ptr<const DemandRates> rates);
  static constexpr std::uint64_t kStale = 16;
  /// The tables and the mixture, for a later start on the same kind of work; not the tree. load()
  /// is for a forest that has seen nothing yet and leaves it so when the bytes are not save()'s.
  std::vector<std::byte> save() const;
  bool load(std::span<const std::byte> bytes);
  /// What this forest's last sweep computed.
  std::shared_ptr<const DemandRates> rates() const { return rates_; }

  /// Requests per tick whose overlap ends at the node, or on the edges below it before another
  /// node.
  double own_rate(PlanNode node) const { return points_[node].rate + points_[node].atoms; }
  /// W: of all points and atoms for which this claim is, or would be, the nearest one.
  double served(PlanNode node) const { return sums_[node].mass - sums_[node].below; }

  /// Of the whole subtree, the node included.
  double mass(PlanNode node) const { return sums_[node].mass; }

  /// Where the unshared part of the last request is expected to split: one atom each, equal shares.
  const std::vector<std::int32_t>& last_atoms() const { return last_atoms_; }
  /// Of a first split there, all atoms together: rate per tick, and expected discounted number.
  double last_split_rate() const { return rates_->splits->at(last_turn_, 0).rate(1); }
  double last_split_hits() const { return rates_->splits->at(last_turn_, 0).hits(1); }
  /// The last request goes on from another's end, as chats do, and too few first splits have been
  /// seen to expect one.
  bool goes_on_untold() const;
  /// Expected discounted number of hits on a new position of that meaning, as a point of its own.
  double meaning_hits(StateKind kind) const;

  PointKind kind(PlanNode node) const { return points_[node].kind; }
  const InteriorMixture& interior() const { return interior_; }
  std::int64_t points() const { return static_cast<std::int64_t>(active_.size()); }
  /// Nodes that the next sweep looks at: those with a rate and all above them.
  std::int64_t summed() const { return static_cast<std::int64_t>(summed_.size()); }
  std::uint64_t tick() const { return tick_; }
  std::uint64_t sweeps_adopted() const { return adopted_; }
  /// Throws InvariantError when the masses differ from a recount by more than rounding; O(nodes).
  void verify() const;

 private:
  struct Point {
    PointKind kind = PointKind::none;
    std::uint8_t turn = 0;     // ends: ends above it on the path, capped
    std::uint8_t gap = 0;      // other kinds: age bucket of the gap between the last two events
    std::int32_t at = -1;      // place in active_
    std::int32_t prompt = -1;  // the young prompt that brought this part of the path
    std::uint32_t hits = 0;
    std::uint64_t last = 0;  // tick of the last event
    std::uint64_t born = 0;  // tick of the request that brought this part of the path
    double rate = 0;         // of the point
    double atoms = 0;        // of first splits on the edges below
  };
  struct Sums {
    double mass = 0;   // rate and atoms of the subtree
    double below = 0;  // of that, served by claims strictly below
  };
  enum Listed : std::uint8_t { kSummed = 1, kRated = 2, kEnd = 4 };  // kEnd: the point's kind
  /// A prompt that brought something new, while it is young.
  struct Young {
    PlanNode end = kNoPlanNode;  // none: the slot is free at the next sweep
    std::int32_t start = 0, length = 0;
    std::uint64_t born = 0;
    bool split = false;  // it has been
    int turn = 0;
    double each = 0;  // rate of an atom, as it stands in the nodes
    std::vector<std::int32_t> atoms;
  };

  int table_class(const Point& p) const;
  int feature(const Point& p) const;
  double rate_now(const Point& p) const;
  int turn_of(PlanNode end) const;

  void hit(PlanNode node);
  void split(std::size_t young, std::int32_t position);
  void end_of_prompt(const RequestView& request);
  void watch(const RequestView& request);
  void unwatch(Young& young);
  void activate(PlanNode node);
  void deactivate(PlanNode node);
  void drop(PlanNode node);
  void meaning(PlanNode node, StateKind kind);

  void sweep();
  void expose(double ticks);
  void renew_rates();

  void list(PlanNode node, Listed in);
  void list_path(PlanNode node);
  void restart_sums();
  void sum_up();
  void set_rate(PlanNode node, double rate);
  void add_atoms(PlanNode node, double by);
  void add_mass(PlanNode node, double by);
  void add_below(PlanNode node, double by);
  void spread(const Young& young, double by, bool masses);
  void split_edge(const TreeOp& op);
  void add_upwards(std::vector<Sums>& sums, std::span<const PlanNode> top_down) const;

  const PlanTree& tree_;
  DemandOptions options_;
  HazardTables tables_;
  HazardTables split_tables_;
  std::shared_ptr<const DemandRates> rates_;
  InteriorMixture interior_;
  std::vector<Point> points_;     // by slot
  std::vector<PlanNode> active_;  // points not idle for long
  // What has a sum is a small part of what is remembered, and the only part a sweep looks at.
  std::vector<Sums> sums_;             // by slot
  std::vector<std::uint8_t> listed_;   // by slot: Listed
  std::vector<PlanNode> summed_;       // all slots with a sum, as listed since the last sweep
  std::vector<PlanNode> rated_;        // all slots with a rate or atoms
  std::vector<PlanNode> summed_last_;  // a buffer
  std::vector<Young> young_;           // slots
  std::vector<std::int32_t> free_young_;
  std::vector<std::int32_t> watched_;  // slots in use, by birth
  std::vector<std::int32_t> last_atoms_;
  int last_turn_ = 0;
  std::uint64_t tick_ = 0;
  std::uint64_t swept_ = 0;
  std::uint64_t adopted_ = 0;
};

}  // namespace cairn::engine
