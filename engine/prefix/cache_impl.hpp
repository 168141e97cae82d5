// SPDX-License-Identifier: Apache-2.0
// The parts of PrefixCache, for its own .cpp files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/prefix/in_flight.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "engine/prefix/radix_forest.hpp"
#include "engine/prefix/state_order.hpp"

namespace cairn::engine {

struct PrefixCache::Impl {
  Impl(MemoryPools& pools_in, std::unique_ptr<Policy> policy_in, PrefixOptions options_in);

  // lookup.cpp
  LookupResult lookup(const LookupRequest& request);
  std::optional<ShareWait> wait_for_leader(const LookupRequest& request, std::int32_t best_resume);
  std::optional<Lease> admit(const LookupRequest& request, ForestNode* resume);
  void plan_saves(const LookupRequest& request, const ForestMatch& match, Lease& lease);
  NoRoom no_room(std::int64_t blocks, bool ever) const;

  // eviction.cpp
  /// Reserves, dropping cached states in the policy's order; drops none when that could not be
  /// enough.
  std::optional<Reservation> make_room(std::int32_t blocks, std::int32_t states);
  /// A slot for a state worth `value`, at the price of states worth less.
  std::optional<Reservation> room_for_save(double value);
  std::uint64_t evict(ForestNode& node);  // bytes that went back to the pools
  bool eviction_can_free(std::uint64_t bytes) const;

  // prefix_cache.cpp
  void publish(SavedState saved);

  std::uint64_t block_bytes() const { return pools.layout().kv_block_bytes; }
  std::uint64_t state_bytes() const { return pools.layout().state_bytes; }

  MemoryPools& pools;
  std::unique_ptr<Policy> policy;
  PrefixOptions options;
  RadixForest forest;
  StateOrder order;
  InFlight in_flight;
  std::vector<Observation> observations;
  std::uint64_t tick = 0;  // one per lookup
  std::uint64_t made = 0;  // states entered so far
  bool spare_room = true;  // until the first eviction
  PrefixStats counters;    // stored, evicted, skipped, duplicates and states by kind
};

}  // namespace cairn::engine
