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

std::unique_ptr<CachePolicy> given(std::unique_ptr<CachePolicy> policy) {
  check(policy != nullptr, "a prefix cache needs a policy");
  return policy;
}

ByteCosts costs_of(const PrefixOptions& options, const model::MemoryLayout& layout) {
  if (options.costs) return *options.costs;
  return {.state_bytes = layout.state_bytes,
          .kv_bytes_per_token = layout.kv_block_bytes / model::kBlockTokens,
          .kv_block = model::kBlockTokens};
}

}  // namespace

PrefixCache::Impl::Impl(MemoryPools& pools_in, std::unique_ptr<CachePolicy> policy_in,
                        PrefixOptions options_in)
    : pools(pools_in),
      policy(given(std::move(policy_in))),
      options(options_in),
      forest(costs_of(options_in, pools_in.layout())) {
  forest.tree().listen(policy.get());
  policy->attach(forest.tree());
  forest.tree().listen(&log);
  policy->learn_budget(budget());
}

// What the pools hold is the budget where charges are by their sizes.
std::uint64_t PrefixCache::Impl::budget() const {
  const bool own = options.cache_bytes > 0 || options.costs;
  return own ? options.cache_bytes : pools.usage().bytes_budget;
}

void PrefixCache::Impl::release_claims(std::span<const PlanNode> nodes) {
  for (const PlanNode node : nodes) forest.drop_pending(*forest.node(node));
}

// As long as the rule's own memory of a place.
void PrefixCache::Impl::forget_idle() {
  const std::uint64_t idle =
      idle_limit(options.idle_requests, options.idle_per_state, forest.tree().claims());
  forest.trim({.max_nodes = options.max_nodes,
               .max_tokens = options.max_tokens,
               .seen_since = tick - std::min(tick, idle)});
}

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
  ForestNode* node = forest.insert(path, tick, saved.scope);
  if (!node->state) {
    forest.set_state(*node, std::move(saved.state), saved.kind, saved.blocks);
    claims.settle(node->plan);
    const auto kind = static_cast<std::size_t>(saved.kind);
    ++counters.stored;
    ++counters.stored_by_kind[kind];
    ++counters.states_by_kind[kind];
  } else {
    ++counters.duplicates;
  }
  keep_to_budget();
  forget_idle();
}

PrefixCache::PrefixCache(MemoryPools& pools, std::unique_ptr<CachePolicy> policy,
                         PrefixOptions options)
    : impl_(std::make_unique<Impl>(pools, std::move(policy), options)) {}
PrefixCache::~PrefixCache() = default;

LookupResult PrefixCache::lookup(const LookupRequest& request) { return impl_->lookup(request); }
void PrefixCache::publish(SavedState saved) { impl_->publish(std::move(saved)); }
HeldState PrefixCache::held(std::string_view scope, std::span<const std::int32_t> tokens,
                            std::int32_t max_position) const {
  // A match leaves a token to compute: one that no prompt has lets it end with the last of these.
  std::vector<std::int32_t> path(
      tokens.begin(),
      tokens.begin() + std::clamp<std::int64_t>(max_position, 0, std::ssize(tokens)));
  path.push_back(-1);
  HeldState held;
  if (const ForestNode* node = impl_->forest.match(path, scope).resume) {
    held.position = node->end;
    held.kind = impl_->forest.tree()[node->plan].kind;
    held.state = node->state;
    held.blocks = impl_->forest.block_table(*node);
  }
  return held;
}

void PrefixCache::end(SequenceId id) {
  impl_->in_flight.end(id);
  impl_->release_claims(impl_->claims.end(id));
}
void PrefixCache::save_refused(SequenceId leader) {
  impl_->in_flight.passed(leader, std::numeric_limits<std::int32_t>::max());
  impl_->release_claims(impl_->claims.refuse_asked(leader));
}

void PrefixCache::clear() {
  impl_->in_flight.clear();
  impl_->claims.clear();
  impl_->forest.clear();
  std::fill(std::begin(impl_->counters.states_by_kind), std::end(impl_->counters.states_by_kind),
            0);
}

void PrefixCache::adopt(const std::shared_ptr<const Plan>& plan) { impl_->policy->adopt(plan); }

void PrefixCache::learn_costs(const PolicyCosts& costs) {
  impl_->costs = costs;
  impl_->policy->learn_costs(costs);
}

std::vector<Observation> PrefixCache::take_observations() {
  return std::exchange(impl_->observations, {});
}

PrefixStats PrefixCache::stats() const {
  PrefixStats s = impl_->counters;
  s.nodes = impl_->forest.nodes();
  s.states = impl_->forest.states();
  s.pending = impl_->forest.tree().claims() - s.states;
  s.charged_bytes = impl_->forest.tree().bytes();
  s.kv_bytes = static_cast<std::uint64_t>(impl_->forest.blocks()) * impl_->block_bytes();
  s.state_bytes = static_cast<std::uint64_t>(s.states) * impl_->state_bytes();
  return s;
}

void PrefixCache::verify() const {
  impl_->forest.verify();
  const PlanTree& tree = impl_->forest.tree();
  for (PlanNode node = 0; node < tree.slots(); ++node) {
    const bool pending = tree[node].used && tree[node].claim == Claim::pending;
    check(pending == (impl_->claims.owners(node) > 0), "a pending claim without an owner");
  }
}

}  // namespace cairn::engine
