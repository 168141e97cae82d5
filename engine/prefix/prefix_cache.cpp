// SPDX-License-Identifier: Apache-2.0
// What enters the cache, and the public face.
#include "engine/prefix/prefix_cache.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "engine/prefix/cache_impl.hpp"

namespace cairn::engine {
namespace {

std::unique_ptr<Policy> given(std::unique_ptr<Policy> policy) {
  check(policy != nullptr, "a prefix cache needs a policy");
  return policy;
}

}  // namespace

PrefixCache::Impl::Impl(MemoryPools& pools_in, std::unique_ptr<Policy> policy_in,
                        PrefixOptions options_in)
    : pools(pools_in),
      policy(given(std::move(policy_in))),
      options(options_in),
      order(forest, *policy, pools_in.layout()) {}

void PrefixCache::Impl::publish(SavedState saved) {
  check(saved.state && saved.tokens && saved.position > 0, "a saved state without its prefix");
  check(static_cast<std::int64_t>(saved.tokens->size()) >= saved.position &&
            static_cast<std::int64_t>(saved.blocks.size()) >= blocks_for(saved.position),
        "a saved state longer than its prefix");
  in_flight.passed(saved.id, saved.position);
  if (!policy->keeps_anything()) return;
  if (saved.kind == StateKind::answer_end && !policy->keeps_answer_end()) return;
  // Pools that were given up can still be written to by who held them; nothing of theirs enters
  // here.
  const auto foreign = [this](const KvBlockRef& block) { return !pools.owns(block); };
  if (!pools.owns(saved.state) || std::any_of(saved.blocks.begin(), saved.blocks.end(), foreign)) {
    return;
  }

  const std::span<const std::int32_t> path(saved.tokens->data(),
                                           static_cast<std::size_t>(saved.position));
  ForestNode* node = forest.insert(path, tick);
  if (!node->state) {
    forest.set_state(*node, std::move(saved.state), saved.blocks);
    node->kind = saved.kind;
    node->last_used = tick;
    node->made = ++made;
    order.add(*node);
    for (ForestNode* n : order.neighbours(*node)) order.renew(*n);
    const auto kind = static_cast<std::size_t>(saved.kind);
    ++counters.stored;
    ++counters.stored_by_kind[kind];
    ++counters.states_by_kind[kind];
  } else {
    ++counters.duplicates;
  }
  forest.trim(options.max_nodes, options.max_tokens);
}

PrefixCache::PrefixCache(MemoryPools& pools, std::unique_ptr<Policy> policy, PrefixOptions options)
    : impl_(std::make_unique<Impl>(pools, std::move(policy), options)) {}
PrefixCache::~PrefixCache() = default;

LookupResult PrefixCache::lookup(const LookupRequest& request) { return impl_->lookup(request); }
void PrefixCache::publish(SavedState saved) { impl_->publish(std::move(saved)); }
void PrefixCache::end(SequenceId id) { impl_->in_flight.end(id); }
void PrefixCache::save_refused(SequenceId leader) {
  impl_->in_flight.passed(leader, std::numeric_limits<std::int32_t>::max());
}

void PrefixCache::clear() {
  impl_->order.clear();
  impl_->forest.clear();
  std::fill(std::begin(impl_->counters.states_by_kind), std::end(impl_->counters.states_by_kind),
            0);
}

void PrefixCache::adopt(std::shared_ptr<const Plan> plan) {
  impl_->policy->adopt(std::move(plan));
  impl_->order.renew_all();
}

std::vector<Observation> PrefixCache::take_observations() {
  return std::exchange(impl_->observations, {});
}

PrefixStats PrefixCache::stats() const {
  PrefixStats s = impl_->counters;
  s.nodes = impl_->forest.nodes();
  s.states = impl_->forest.states();
  s.kv_bytes = static_cast<std::uint64_t>(impl_->forest.blocks()) * impl_->block_bytes();
  s.state_bytes = static_cast<std::uint64_t>(s.states) * impl_->state_bytes();
  return s;
}

void PrefixCache::verify() const {
  impl_->forest.verify();
  check(static_cast<std::int64_t>(impl_->order.size()) == impl_->forest.states(),
        "the eviction order and the forest hold different states");
}

}  // namespace cairn::engine
