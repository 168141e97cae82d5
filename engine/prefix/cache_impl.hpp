// SPDX-License-Identifier: Apache-2.0
// The parts of PrefixCache, for its own .cpp files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/prefix/in_flight.hpp"
#include "engine/prefix/pending_claims.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "engine/prefix/radix_forest.hpp"

namespace cairn::engine {

struct PrefixCache::Impl {
  Impl(MemoryPools& pools_in, std::unique_ptr<CachePolicy> policy_in, PrefixOptions options_in);

  // lookup.cpp
  LookupResult lookup(const LookupRequest& request);
  std::optional<ShareWait> wait_for_leader(const LookupRequest& request, std::int32_t best_resume);
  std::optional<Lease> admit(const LookupRequest& request, ForestNode* resume);
  void enter(const LookupRequest& request, const ForestMatch& match, Lease& lease);
  void plan_saves(const LookupRequest& request, const RequestView& view, Lease& lease);
  NoRoom no_room(std::int64_t blocks, bool ever) const;

  // eviction.cpp
  /// Reserves, dropping cached states in the policy's order; drops none when that could not be
  /// enough.
  std::optional<Reservation> make_room(std::int32_t blocks, std::int32_t states);
  /// A slot for each of `fresh`, places that `id` alone or with others is to save at, within the
  /// budget. What is worth least goes, cached or fresh; the places given up leave `fresh`.
  Reservation room_for_saves(SequenceId id, std::vector<ForestNode*>& fresh);
  void keep_to_budget();
  bool within_budget() const;
  /// Whether the budget could hold a state at `position` with its KV and nothing else.
  bool fits_alone(std::int32_t position) const;
  /// Whether a state there takes longer to copy in than to compute (architecture, decision 13).
  bool sooner_computed(std::int32_t position) const {
    return costs.prefill(position) <= costs.restore;
  }
  bool idle_state(const ForestNode& node) const;
  ForestNode* least_state();
  void tell_policy_to_free(std::uint64_t bytes);
  void evict(ForestNode& node);
  void skip_save(SequenceId id, ForestNode& node);
  bool eviction_can_free(std::uint64_t bytes) const;

  // prefix_cache.cpp
  void publish(SavedState saved);
  void release_claims(std::span<const PlanNode> nodes);
  void forget_idle();
  std::uint64_t budget() const;

  std::uint64_t block_bytes() const { return pools.layout().kv_block_bytes; }
  std::uint64_t state_bytes() const { return pools.layout().state_bytes; }

  MemoryPools& pools;
  std::unique_ptr<CachePolicy> policy;
  PlanLog log;
  PolicyCosts costs;
  PrefixOptions options;
  RadixForest forest;
  InFlight in_flight;
  PendingClaims claims;
  std::vector<Observation> observations;
  std::uint64_t tick = 0;  // one per request that was let in
  bool spare_room = true;  // until something had to be given up for room
  PrefixStats counters;    // stored, evicted, skipped, duplicates and states by kind
};

}  // namespace cairn::engine
