// SPDX-License-Identifier: Apache-2.0
// Making room: what is cached or claimed goes in the policy's order, live work never does.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "engine/prefix/cache_impl.hpp"

namespace cairn::engine {

void PrefixCache::Impl::evict(ForestNode& node) {
  const auto kind = static_cast<std::size_t>(forest.tree()[node.plan].kind);
  forest.drop_state(node);
  spare_room = false;
  ++counters.evicted;
  ++counters.evicted_by_kind[kind];
  --counters.states_by_kind[kind];
}

void PrefixCache::Impl::skip_save(SequenceId id, ForestNode& node) {
  if (claims.drop(id, node.plan)) forest.drop_pending(node);
  spare_room = false;
  ++counters.skipped;
}

bool PrefixCache::Impl::within_budget() const {
  return options.cache_bytes == 0 || forest.tree().bytes() <= options.cache_bytes;
}

bool PrefixCache::Impl::idle_state(const ForestNode& node) const {
  return node.state.use_count() == 1;
}

ForestNode* PrefixCache::Impl::least_state() {
  return forest.node(
      policy->least([this](PlanNode plan) { return idle_state(*forest.node(plan)); }));
}

bool PrefixCache::Impl::fits_alone(std::int32_t position) const {
  const std::uint64_t most = budget();
  return most == 0 || forest.tree().bytes_alone(position) <= most;
}

// The claims may take what they take now less these: the same choice as under a budget of so much.
void PrefixCache::Impl::tell_policy_to_free(std::uint64_t bytes) {
  const std::uint64_t held = forest.tree().bytes();
  policy->make_fit(held - std::min(held, bytes));
}

// Whether dropping every state that is not in use would give back so many bytes. Emptying the cache
// for a request that has to wait for live work all the same would be a pity; the exact count costs
// a pass over the blocks and is made only when a good part of the cache is at stake.
bool PrefixCache::Impl::eviction_can_free(std::uint64_t bytes) const {
  const auto size_of = [this](std::int64_t blocks, std::int64_t states) {
    return static_cast<std::uint64_t>(blocks) * block_bytes() +
           static_cast<std::uint64_t>(states) * state_bytes();
  };
  const std::uint64_t cached = size_of(forest.blocks(), forest.states());
  if (bytes > cached) return false;
  if (bytes <= cached / 8) return true;
  const ForestFreed unshared = forest.unshared();
  return bytes <= size_of(unshared.blocks, unshared.states);
}

std::optional<Reservation> PrefixCache::Impl::make_room(std::int32_t blocks, std::int32_t states) {
  if (auto r = pools.reserve(blocks, states)) return r;
  if (!eviction_can_free(pools.lacking_bytes(blocks, states))) return std::nullopt;
  for (;;) {
    tell_policy_to_free(pools.lacking_bytes(blocks, states));
    ForestNode* victim = least_state();
    if (victim == nullptr) return std::nullopt;
    evict(*victim);
    if (auto r = pools.reserve(blocks, states)) return r;
  }
}

Reservation PrefixCache::Impl::room_for_saves(SequenceId id, std::vector<ForestNode*>& fresh) {
  // Of a place where another request saves too nothing is gained by giving it up.
  const auto own_place = [&](const ForestNode* node) {
    return std::find(fresh.begin(), fresh.end(), node) != fresh.end() &&
           claims.owners(node->plan) == 1;
  };
  const auto usable = [&](PlanNode plan) {
    const ForestNode* node = forest.node(plan);
    return node->state ? idle_state(*node) : own_place(node);
  };
  while (!fresh.empty()) {
    if (within_budget()) {
      const auto needed = static_cast<std::int32_t>(fresh.size());
      if (auto slots = pools.reserve(0, needed)) return std::move(*slots);
      tell_policy_to_free(pools.lacking_bytes(0, needed));
    } else {
      policy->make_fit(options.cache_bytes);
    }
    ForestNode* victim = forest.node(policy->least(usable));
    if (victim != nullptr && victim->state) {
      evict(*victim);
      continue;
    }
    if (victim == nullptr) victim = fresh.back();
    skip_save(id, *victim);
    std::erase(fresh, victim);
  }
  return {};
}

void PrefixCache::Impl::keep_to_budget() {
  while (!within_budget()) {
    policy->make_fit(options.cache_bytes);
    ForestNode* victim = least_state();
    if (victim == nullptr) return;
    evict(*victim);
  }
}

std::optional<Reservation> PrefixCache::extend(std::int32_t blocks, std::int32_t states) {
  return impl_->make_room(blocks, states);
}

}  // namespace cairn::engine
