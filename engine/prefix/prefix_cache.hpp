// SPDX-License-Identifier: Apache-2.0
// The prefix cache: a radix forest over tokens whose nodes hold KV blocks and states, the policy
// that says where states sit and which go, and the leases that running requests hold. Plain logic,
// owned by one thread (the prefix actor, the simulator).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/cache/pools.hpp"
#include "engine/placement/cache_policy.hpp"
#include "engine/placement/demand_forest.hpp"
#include "engine/placement/plan_log.hpp"
#include "engine/placement/plan_snapshot.hpp"
#include "engine/placement/planner.hpp"

namespace cairn::engine {

using TokenSeq = std::shared_ptr<const std::vector<std::int32_t>>;
using SequenceId = std::uint64_t;

struct PrefixOptions {
  std::uint64_t cache_bytes = 0;         // of states and KV kept or to be saved; 0: the pools limit
  std::optional<ByteCosts> costs = {};   // how these are charged; default: by whole block, as held
  std::int32_t max_nodes = 200'000;      // remembered radix nodes, cached or not
  std::int64_t max_tokens = 64'000'000;  // remembered tokens (4 bytes each), cached or not
  std::uint64_t idle_requests =
      DemandOptions{}.idle;  // what is not cached is forgotten when idle for longer,
  std::uint64_t idle_per_state = DemandOptions{}.per_claim;  // or, if more, for so many a state
  std::int32_t share_wait_tokens = 256;
};

/// A state to copy out during the pass, with the slot it goes to.
struct PlannedSave {
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
  StateRef state;
};

/// Why tokens that earlier prompts shared are recomputed (labels of
/// prefix_cache_recomputed_tokens_total).
struct RecomputeReasons {
  std::int32_t no_state = 0;    // KV was there or never kept, no state at or near the overlap's end
  std::int32_t grain = 0;       // lost to the backend's grain (0 here: grain 1)
  std::int32_t last_token = 0;  // an exact repeat's last token
  std::int32_t evicted = 0;     // remembered, but its KV is gone
};

/// What a request holds while it runs. RAII: dropping it anywhere, on any thread, returns
/// everything.
struct Lease {
  SequenceId id = 0;
  std::string scope;                           // as of the request; of what it saves, too
  std::int32_t overlap = 0;                    // tokens shared with the deepest remembered path
  std::int32_t kv_matched = 0;                 // of these, with whole KV
  std::int32_t resume = 0;                     // c: cached tokens; state and KV of [0, c) are held
  StateKind resume_kind = StateKind::planned;  // of the state there
  StateRef resume_state;                       // empty when resume == 0
  std::vector<KvBlockRef>
      prefix_blocks;        // ceil(c/16): full ones are shared, a last partial one is copied from
  StateRef running_state;   // exclusive
  Reservation reservation;  // blocks for the rest of the prompt and min(max_new, 256) tokens
  std::vector<PlannedSave> saves;  // ascending
  RecomputeReasons reasons;
  bool publish = true;  // false: nothing of this request enters the cache
};

struct LookupRequest {
  SequenceId id = 0;
  TokenSeq tokens;  // >= 1 token
  std::vector<StructuralPoint> structure;
  std::int32_t max_new = 0;
  bool use_cache = true;  // false: cold and unpublished (prompt log-probs, opt-out)
  bool may_wait = true;   // in-flight sharing allowed
  std::string scope;      // nothing is ever shared with requests of another scope
};

/// Wait until `leader` has passed `position` (it was asked to save there) or has ended; then look
/// up again with the same id. A request waits once for a leader: coming back too early, or after
/// the leader refused the save, it runs on its own.
struct ShareWait {
  SequenceId leader = 0;
  PlannedSave save;  // for the leader; kind branch. Without a state: it saves there anyhow
};
/// Not now: live requests hold the memory. `ever` false: not even an empty pool would do.
struct NoRoom {
  bool ever = true;
  std::string message;
};
using LookupResult = std::variant<Lease, ShareWait, NoRoom>;

/// A state and the KV of its prefix, as the executor copied them out.
struct SavedState {
  SequenceId id = 0;
  TokenSeq tokens;  // at least `position` tokens; may be longer
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
  StateRef state;
  std::vector<KvBlockRef> blocks;  // ceil(position/16)
  std::string scope;               // the lease's
};

/// A cached state and its KV, not evicted while this lives. Position 0: there is none.
struct HeldState {
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
  StateRef state;
  std::vector<KvBlockRef> blocks;  // ceil(position/16)
};

/// What is predicted of a place, per request served.
struct PredictedDemand {
  double reach = 0;   // requests whose overlap comes so far
  double served = 0;  // of these, those that no state further down serves
};

struct PrefixStats {
  std::int64_t nodes = 0;
  std::int64_t states = 0;
  std::int64_t pending = 0;  // places where running requests will save
  std::int64_t states_by_kind[kStateKinds] = {};
  std::uint64_t kv_bytes = 0;  // held by the forest (shared with running requests or not)
  std::uint64_t state_bytes = 0;
  std::uint64_t charged_bytes = 0;  // against the budget: states and pending ones with their KV
  std::uint64_t stored = 0, evicted = 0, skipped = 0;
  std::uint64_t duplicates = 0;  // published where a state was already
  std::uint64_t stored_by_kind[kStateKinds] = {};
  std::uint64_t evicted_by_kind[kStateKinds] = {};
};

class PrefixCache {
 public:
  PrefixCache(MemoryPools& pools, std::unique_ptr<CachePolicy> policy, PrefixOptions options = {});
  ~PrefixCache();

  /// Finds the resume point, evicts what is needed, pins and reserves. A Lease makes the request
  /// "in flight": others may wait for it until end(id). What anyone outside holds (leases, running
  /// sequences) is never evicted. The prompt's path is remembered when the lease is given. Each
  /// place that the policy names is claimed; while the claims do not fit the budget, or find no
  /// slot, the one that the policy values least goes: a cached state, or a place of this request
  /// (counted as skipped).
  LookupResult lookup(const LookupRequest& request);

  /// Enters a state into the forest. Tokens are compared, never only hashes. A position that has a
  /// state already keeps the old one. Late or duplicate saves are harmless.
  void publish(SavedState saved);

  /// The request is over (finished, cancelled, failed, preempted): nobody can wait for it any more,
  /// and what it has not saved is no longer claimed.
  void end(SequenceId id);

  /// The leader of a ShareWait could not save where it was asked to: nobody waits for it any more.
  void save_refused(SequenceId leader);

  /// Blocks for a running request (and states, for what is read from a lower tier), at the price of
  /// cached states in the policy's order; nullopt when live work holds everything.
  std::optional<Reservation> extend(std::int32_t blocks, std::int32_t states = 0);

  /// The deepest state on the path of `tokens` that ends at or before `max_position`, with its KV,
  /// for a lower tier. No request: nothing is remembered of it. O(tokens).
  HeldState held(std::string_view scope, std::span<const std::int32_t> tokens,
                 std::int32_t max_position) const;

  /// Of the end of `tokens`, whether a state is there or not; nullopt: the policy does not predict,
  /// or the path is not remembered. O(tokens).
  std::optional<PredictedDemand> predicted(std::string_view scope,
                                           std::span<const std::int32_t> tokens) const;

  /// Drops everything that is cached. Nobody waits for the requests in flight any more.
  void clear();

  void adopt(const std::shared_ptr<const Plan>& plan);
  void learn_costs(const PolicyCosts& costs);
  /// Whether the policy has statistics of its own, which a planner's replica can go on with.
  bool predicts() const;
  /// For a planner's replica: the tree and its statistics now, events since then, and whether these
  /// go on without a gap. Null and false where the policy has no statistics of its own.
  std::shared_ptr<PlanReplica> plan_replica();
  std::vector<PlanEvent> take_plan_events();
  bool plan_events_follow() const;
  void stop_plan_events();
  std::uint64_t budget() const;  // of all claims, as far as it is known
  /// What the policy has learned, across restarts; see CachePolicy.
  std::vector<std::byte> save_learned() const;
  bool load_learned(std::span<const std::byte> bytes);
  /// What a byte must earn, in the unit of the costs; 0: the policy has none.
  double price() const;
  /// The forest as it is kept and valued now. O(everything).
  PlanSnapshot snapshot() const;
  /// Observations since the last call, for the planner.
  std::vector<Observation> take_observations();
  PrefixStats stats() const;
  /// Throws InvariantError when the parts disagree; O(everything), for tests.
  void verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::engine
