// SPDX-License-Identifier: Apache-2.0
// Making room: cached states go in the policy's order, live work never does.
#include <utility>

#include "engine/prefix/cache_impl.hpp"

namespace cairn::engine {

std::uint64_t PrefixCache::Impl::evict(ForestNode& node) {
  const auto kind = static_cast<std::size_t>(node.kind);
  // States stay where they are when another goes, nodes without one may not.
  const std::vector<ForestNode*> neighbours = order.neighbours(node);
  order.remove(node);
  const ForestFreed freed = forest.drop_state(node);
  for (ForestNode* n : neighbours) order.renew(*n);
  spare_room = false;
  ++counters.evicted;
  ++counters.evicted_by_kind[kind];
  --counters.states_by_kind[kind];
  return static_cast<std::uint64_t>(freed.blocks) * block_bytes() +
         static_cast<std::uint64_t>(freed.states) * state_bytes();
}

// Whether dropping every state that is not in use would give back so many bytes. Emptying the cache
// for a request that has to wait for live work all the same would be a pity; the exact count costs
// a pass over the blocks and is made only when a good part of the cache is at stake.
bool PrefixCache::Impl::eviction_can_free(std::uint64_t bytes) const {
  const std::uint64_t cached = static_cast<std::uint64_t>(forest.blocks()) * block_bytes() +
                               static_cast<std::uint64_t>(forest.states()) * state_bytes();
  if (bytes > cached) return false;
  if (bytes <= cached / 8) return true;
  return bytes <= static_cast<std::uint64_t>(forest.unshared_blocks()) * block_bytes() +
                      static_cast<std::uint64_t>(order.unshared_states()) * state_bytes();
}

std::optional<Reservation> PrefixCache::Impl::make_room(std::int32_t blocks, std::int32_t states) {
  if (auto r = pools.reserve(blocks, states)) return r;
  const std::uint64_t wanted = static_cast<std::uint64_t>(blocks) * block_bytes() +
                               static_cast<std::uint64_t>(states) * state_bytes();
  const PoolUsage usage = pools.usage();
  const std::uint64_t free = usage.bytes_budget - usage.bytes_used;
  if (wanted > free && !eviction_can_free(wanted - free)) return std::nullopt;
  while (ForestNode* victim = order.least()) {
    evict(*victim);
    if (auto r = pools.reserve(blocks, states)) return r;
  }
  return std::nullopt;
}

std::optional<Reservation> PrefixCache::Impl::room_for_save(double value) {
  while (true) {
    if (auto r = pools.reserve(0, 1)) return r;
    ForestNode* victim = order.least();
    if (victim == nullptr || victim->value >= value) return std::nullopt;
    evict(*victim);
  }
}

std::optional<Reservation> PrefixCache::extend(std::int32_t blocks) {
  return impl_->make_room(blocks, 0);
}

}  // namespace cairn::engine
