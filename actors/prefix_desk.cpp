// SPDX-License-Identifier: Apache-2.0
#include "actors/prefix_desk.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "engine/placement/planner.hpp"
#include "engine/placement/policy_names.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

engine::PrefixOptions prefix_options(const EngineOptions& options) {
  engine::PrefixOptions p;
  p.max_nodes = options.forest_nodes;
  p.share_wait_tokens = options.share_wait_tokens;
  return p;
}

// In tokens of prefill: what a state costs to copy, and how positions further down cost more.
// nullopt: no prefill has been measured yet.
std::optional<engine::PolicyCosts> known_costs(const Shared& shared) {
  engine::PolicyCosts costs;
  if (const auto tokens = shared.options.copy_tokens) {
    costs.write = costs.restore = *tokens;
    return costs;
  }
  const double a = shared.prefill_seconds_a.load();
  if (a <= 0) return std::nullopt;
  costs.prefill.b = shared.prefill_seconds_b.load() / a;
  costs.write = costs.restore = shared.seconds_per_state_copy.load() / a;
  return costs;
}

}  // namespace

PrefixDesk::PrefixDesk(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)),
      mail_(mail),
      cache_(*shared_->pools, engine::make_cache_policy(shared_->options.policy).take(),
             prefix_options(shared_->options)),
      has_planner_(cache_.predicts() ||
                   engine::planner_options_for(shared_->options.policy, shared_->context_length)
                           .checkpoints > 0),
      disk_(shared_, mail_, cache_) {
  if (!shared_->learned.empty() && !cache_.load_learned(shared_->learned)) {
    log(LogLevel::warning, "what the policy learned before is not this build's; it starts anew");
  }
}

void PrefixDesk::handle(const PrefixMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
  publish_gauges();
}

void PrefixDesk::on(const Lookup& message) {
  Lookup m = message;
  if (is_dropped(m.request->id)) {
    auto cold = std::make_shared<engine::LookupRequest>(*m.request);
    cold->use_cache = false;
    m.request = std::move(cold);
  }
  if (disk_.hold(m)) return;
  // A request that keeps nothing and finds nothing changes nothing that is kept, or its worth.
  if (m.request->use_cache) renew_costs();
  const SequenceId seq = m.request->id;
  engine::LookupResult result = cache_.lookup(*m.request);
  if (auto* lease = std::get_if<engine::Lease>(&result)) {
    if (m.request->use_cache) count_calibration(*lease);
    disk_.seen(*m.request, *lease);
    mail_.router(Granted{seq, m.attempt, std::make_shared<engine::Lease>(std::move(*lease))});
  } else if (auto* wait = std::get_if<engine::ShareWait>(&result)) {
    waiters_[wait->leader].push_back({seq, wait->save.position});
    mail_.router(Parked{seq, m.attempt});
    // Without a slot the leader saves there already.
    if (wait->save.state) mail_.router(AddSave{wait->leader, std::move(wait->save)});
  } else {
    mail_.router(Refused{seq, m.attempt, std::get<engine::NoRoom>(std::move(result))});
  }
  tell_planner();
}

// Everything that happened since the last message, so that a replica can follow.
void PrefixDesk::tell_planner() {
  auto observations = cache_.take_observations();
  if (observations.empty() || !has_planner_) return;
  // A planner that falls behind or hangs gets a snapshot once it has caught up, not a mailbox
  // without end.
  if (shared_->plan_backlog.load() > static_cast<std::int64_t>(engine::PlanLog::kMost)) {
    cache_.stop_plan_events();
    return;
  }
  Observed seen;
  seen.observations = std::move(observations);
  seen.budget = cache_.budget();
  seen.costs = costs_;
  if (cache_.plan_events_follow()) {
    seen.events = std::make_shared<std::vector<engine::PlanEvent>>(cache_.take_plan_events());
  } else {
    seen.replica = cache_.plan_replica();
  }
  seen.weight =
      static_cast<std::int64_t>(seen.observations.size() + (seen.events ? seen.events->size() : 0));
  shared_->plan_backlog += seen.weight;
  mail_.planner(std::move(seen));
}

// The first measurements are of steps that are short or find cold memory, so that each look-up at
// first takes what is known by then.
void PrefixDesk::renew_costs() {
  constexpr std::uint64_t kEvery = 64;       // lookups, and the first ones
  constexpr std::uint64_t kKeepEvery = 512;  // lookups
  const std::uint64_t before = lookups_++;
  if (before > 0 && before % kKeepEvery == 0) on(KeepLearned{});
  if (costs_known_ && before >= kEvery && before % kEvery != 0) return;
  const std::optional<engine::PolicyCosts> known = known_costs(*shared_);
  costs_known_ = known.has_value();
  costs_ = known.value_or(engine::PolicyCosts{.write = engine::kWriteTokens});
  cache_.learn_costs(costs_);
}

void PrefixDesk::on(const ForgetLookup& m) {
  disk_.forget(m.seq);
  for (auto& [leader, list] : waiters_) {
    std::erase_if(list, [&](const Waiter& w) { return w.seq == m.seq; });
  }
  // A lookup that was granted meanwhile is no longer in flight either.
  cache_.end(m.seq);
  wake(m.seq, std::numeric_limits<std::int32_t>::max(), true);
}

void PrefixDesk::on(const Publish& m) {
  const SequenceId leader = m.saved->id;
  const std::int32_t position = m.saved->position;
  if (!is_dropped(leader)) {
    disk_.offer(*m.saved);
    cache_.publish(std::move(*m.saved));
    disk_.write_next();
  }
  wake(leader, position, true);
}

void PrefixDesk::on(const SequenceOver& m) {
  cache_.end(m.seq);
  wake(m.seq, std::numeric_limits<std::int32_t>::max(), true);
  mail_.router(Released{m.seq});
}

void PrefixDesk::on(const SaveRefused& m) {
  // The leader is past the fork: what it has, it will publish when it ends; nobody is to wait for
  // it any more.
  cache_.save_refused(m.leader);
  wake(m.leader, std::numeric_limits<std::int32_t>::max(), false);
}

void PrefixDesk::wake(SequenceId leader, std::int32_t up_to, bool may_wait) {
  const auto it = waiters_.find(leader);
  if (it == waiters_.end()) return;
  auto& list = it->second;
  const auto ready = std::stable_partition(list.begin(), list.end(),
                                           [&](const Waiter& w) { return w.position > up_to; });
  // Each goes to the front of the queue: the last one sent is the first one served.
  for (auto w = list.end(); w != ready; --w) mail_.router(Unparked{std::prev(w)->seq, may_wait});
  list.erase(ready, list.end());
  if (list.empty()) waiters_.erase(it);
}

void PrefixDesk::on(const WantBlocks& m) {
  auto blocks = cache_.extend(m.blocks);
  mail_.executor(
      BlocksGranted{blocks ? std::make_shared<engine::Reservation>(std::move(*blocks)) : nullptr});
}

void PrefixDesk::on(const PlanPublished& m) {
  shared_->plan_epoch = m.plan->epoch;
  plan_ = m.plan;
  cache_.adopt(m.plan);
  disk_.replanned();
}

// Only where there is a disk: memory goes with the process.
void PrefixDesk::on(const KeepLearned& m) {
  auto learned = std::make_shared<const std::vector<std::byte>>(cache_.save_learned());
  if (shared_->disk && !learned->empty()) {
    mail_.disk(StoreLearned{std::move(learned), m.reply});
  } else if (m.reply) {
    m.reply->set_value(false);
  }
}

void PrefixDesk::on(const WantReplica&) {
  // The next message to the planner begins with it.
  cache_.stop_plan_events();
}

void PrefixDesk::on(const DropCache& m) {
  const engine::PrefixStats had = cache_.stats();
  cache_.clear();
  // Later ones have larger ids.
  shared_->first_kept = make_sequence_id(shared_->next_sequence.load(), 0);
  DroppedCache dropped;
  dropped.paths = had.nodes;
  dropped.states = had.states;
  dropped.bytes = had.kv_bytes + had.state_bytes;
  disk_.clear(dropped, m.reply);
}

void PrefixDesk::on(const WantSnapshot& m) { m.reply->set_value(cache_.snapshot()); }

// Its prompt is not to be remembered.
bool PrefixDesk::is_dropped(SequenceId seq) const { return seq < shared_->first_kept.load(); }

// What the plan in force promised for a request that overlaps something, beside what came of it.
void PrefixDesk::count_calibration(const engine::Lease& lease) {
  // The default rule's plan speaks of all requests, others of those that overlap something.
  if (!plan_ || (!plan_->certificate && lease.overlap == 0)) return;
  shared_->metrics->predicted_recompute_tokens_total().add(plan_->expected_recompute_tokens);
  shared_->metrics->realised_recompute_tokens_total().add(lease.overlap - lease.resume);
}

void PrefixDesk::publish_gauges() {
  const engine::PrefixStats now = cache_.stats();
  const Metrics& metrics = *shared_->metrics;
  shared_->cached_states = now.states;
  shared_->cache_price = cache_.price();
  for (int k = 0; k < engine::kStateKinds; ++k) {
    const auto kind = static_cast<CheckpointKind>(k);
    metrics.state_checkpoints(kind).set(static_cast<double>(now.states_by_kind[k]));
    metrics.state_checkpoint_stored_total(kind).add(
        static_cast<double>(now.stored_by_kind[k] - counted_.stored_by_kind[k]));
    metrics.state_checkpoint_evicted_total(kind).add(
        static_cast<double>(now.evicted_by_kind[k] - counted_.evicted_by_kind[k]));
  }
  metrics.state_checkpoint_skipped_total(SkipReason::no_room)
      .add(static_cast<double>(now.skipped - counted_.skipped));
  metrics.state_checkpoint_skipped_total(SkipReason::duplicate)
      .add(static_cast<double>(now.duplicates - counted_.duplicates));
  const engine::PoolUsage usage = shared_->pools->usage();
  const model::MemoryLayout& layout = shared_->pools->layout();
  const double kv_used =
      static_cast<double>(usage.blocks_live) * static_cast<double>(layout.kv_block_bytes);
  metrics.cache_bytes(CacheObject::kv).set(kv_used);
  metrics.cache_bytes(CacheObject::state)
      .set(static_cast<double>(usage.states_live) * static_cast<double>(layout.state_bytes));
  metrics.kv_cache_usage_perc().set(kv_used / static_cast<double>(usage.bytes_budget));
  counted_ = now;
}

}  // namespace cairn::actors
