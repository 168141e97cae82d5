// SPDX-License-Identifier: Apache-2.0
// What planners and people see of the cache.
#include <algorithm>

#include "engine/prefix/cache_impl.hpp"

namespace cairn::engine {

bool PrefixCache::predicts() const { return impl_->policy->demand_forest() != nullptr; }

std::shared_ptr<PlanReplica> PrefixCache::plan_replica() {
  const DemandForest* demand = impl_->policy->demand_forest();
  if (demand == nullptr) return nullptr;
  impl_->log.restart();
  return std::make_shared<PlanReplica>(impl_->forest.tree(), *demand);
}

std::vector<PlanEvent> PrefixCache::take_plan_events() { return impl_->log.take(); }
bool PrefixCache::plan_events_follow() const { return impl_->log.running(); }
void PrefixCache::stop_plan_events() { impl_->log.stop(); }
std::vector<std::byte> PrefixCache::save_learned() const { return impl_->policy->save(); }
bool PrefixCache::load_learned(std::span<const std::byte> bytes) {
  return impl_->policy->load(bytes);
}
std::uint64_t PrefixCache::budget() const { return impl_->budget(); }
double PrefixCache::price() const { return impl_->policy->price(); }

std::optional<PredictedDemand> PrefixCache::predicted(std::string_view scope,
                                                      std::span<const std::int32_t> tokens) const {
  const DemandForest* demand = impl_->policy->demand_forest();
  if (demand == nullptr) return std::nullopt;
  const ForestMatch match = impl_->forest.match(tokens, scope);
  if (match.last == nullptr || match.overlap != std::ssize(tokens)) return std::nullopt;
  const PlanNode node = match.last->plan;
  // What comes past a place within an edge comes to the edge's end.
  const bool served_below = match.overlap < match.last->end && impl_->forest.tree().claimed(node);
  PredictedDemand d;
  d.reach = std::max(demand->mass(node), 0.0);
  d.served = served_below ? 0.0 : std::max(demand->served(node), 0.0);
  return d;
}

PlanSnapshot PrefixCache::snapshot() const {
  const PlanTree& tree = impl_->forest.tree();
  const DemandForest* demand = impl_->policy->demand_forest();
  const auto rate = [&](PlanNode n) { return demand != nullptr ? demand->own_rate(n) : 0.0; };
  const auto value = [&](PlanNode n) { return impl_->policy->loss_per_byte(n); };
  PlanSnapshot s = snapshot_of(tree, rate, value);
  s.policy = impl_->policy->name();
  s.budget = impl_->budget();
  s.price = price();
  return s;
}

}  // namespace cairn::engine
