// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/simulator.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "engine/placement/forest_planner.hpp"
#include "engine/placement/planner.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "engine/prefix/radix_forest.hpp"
#include "engine/simulate/timed_policy.hpp"

namespace cairn::engine {
namespace {

constexpr std::int64_t kSamples = 400;
constexpr std::uint64_t kBlockTokens = model::kBlockTokens;

std::uint64_t divided(std::uint64_t a, std::uint64_t b) { return b == 0 ? ~0ull : a / b; }

// Only the last certificate is told, and each is an exact solve of a forest that forgets nothing:
// one with the first plan, one near the end.
std::uint64_t certify_every(std::size_t requests) { return requests - requests / 10 + 1; }

// Objects of one byte each: as many as the trace could fill, and as the budget holds with whole
// blocks where it charges by token (each state may leave two of them partly used).
std::uint64_t objects_for(const Trace& trace, const SimulatorOptions& options) {
  std::uint64_t total = 0, longest = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto blocks = static_cast<std::uint64_t>(trace[i].length) / kBlockTokens + 1;
    total += blocks;
    longest = std::max(longest, blocks);
  }
  constexpr std::uint64_t kSavesOfOne = 1024;
  const std::uint64_t by_trace = total * 2;
  std::uint64_t by_budget = by_trace;
  if (options.bytes > 0) {
    const std::uint64_t states = divided(options.bytes, options.costs.state_bytes);
    const std::uint64_t blocks =
        divided(options.bytes, options.costs.kv_bytes_per_token * kBlockTokens);
    by_budget = std::min(blocks, by_trace) + 3 * std::min(states, by_trace);
  }
  return std::min(by_budget, by_trace) + longest + kSavesOfOne;
}

class Simulation {
 public:
  Simulation(const Trace& trace, std::unique_ptr<CachePolicy> policy,
             const SimulatorOptions& options)
      : trace_(trace),
        options_(options),
        planner_options_(planner_options_for(policy->name(), 0)),
        planner_(planner_options_),
        forest_planner_({.certify_every = certify_every(trace.size())}),
        pools_(options.server.value_or(model::MemoryLayout{.kv_block_bytes = 1, .state_bytes = 1}),
               options.server ? options.bytes : objects_for(trace, options)),
        timed_(new TimedPolicy(std::move(policy))),
        cache_(pools_, std::unique_ptr<CachePolicy>(timed_), cache_options()),
        seen_(ByteCosts{}) {
    cache_.learn_costs(options.policy_costs);
    forest_planner_.learn_costs(options.policy_costs);
    if (auto replica = cache_.plan_replica()) {
      forest_planner_.start(std::move(replica), cache_.budget());
    }
    result_.policy = timed_->name();
    result_.bytes = options.bytes;
  }

  SimulatorResult run() {
    const std::size_t every = trace_.size() / kSamples + 1;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      adopt_due_plan(i);
      const TokenSeq tokens = trace_.tokens(i);
      const std::int32_t reusable = reusable_of(i, *tokens);
      const std::int32_t resume = serve(i, tokens);
      feed_planner(i);
      count(i, reusable, resume);
      if (i % every == 0 || i + 1 == trace_.size()) {
        result_.held.push_back({static_cast<std::int64_t>(i), cache_.stats().charged_bytes});
      }
    }
    const PrefixStats stats = cache_.stats();
    result_.requests = static_cast<std::int64_t>(trace_.size());
    result_.states_written = static_cast<std::int64_t>(stats.stored);
    result_.states_dropped = static_cast<std::int64_t>(stats.evicted);
    result_.solve_ms_total = 1e3 * (timed_->seconds() + planner_seconds_);
    return std::move(result_);
  }

 private:
  PrefixOptions cache_options() const {
    PrefixOptions o;
    if (!options_.server) {
      o.cache_bytes = options_.bytes;
      o.costs = options_.costs;
    }
    o.idle_requests = options_.idle_requests;
    return o;
  }

  std::int32_t reusable_of(std::size_t i, const std::vector<std::int32_t>& tokens) {
    std::int32_t overlap = trace_[i].overlap;
    if (overlap == TraceRequest::kNotStated) {
      overlap = seen_.match(tokens).overlap;
      seen_.insert(tokens, i);
    }
    return std::min(overlap, trace_[i].length - 1);
  }

  // Saves what the lease says, without a model, and ends. Returns where it resumed.
  std::int32_t serve(std::size_t i, const TokenSeq& tokens) {
    LookupRequest request;
    request.id = i + 1;
    request.tokens = tokens;
    request.max_new = options_.server ? 1 : 0;
    request.may_wait = false;
    LookupResult found = cache_.lookup(request);
    auto* lease = std::get_if<Lease>(&found);
    check(lease != nullptr, "a simulated pool has no room");
    std::vector<KvBlockRef> table = std::move(lease->prefix_blocks);
    // The block that the resume point is in goes on as the request's own copy.
    if (lease->resume % model::kBlockTokens != 0) table.pop_back();
    const auto publish = [&](PlannedSave save) {
      const auto blocks = static_cast<std::size_t>(blocks_for(save.position));
      while (table.size() < blocks) table.push_back(lease->reservation.take_block());
      cache_.publish({request.id, tokens, save.position, save.kind, std::move(save.state), table,
                      request.scope});
    };
    for (PlannedSave& save : lease->saves) publish(std::move(save));
    if (options_.server && lease->publish) {
      // The one token of the answer was sampled and never run.
      publish({trace_[i].length, StateKind::answer_end, std::move(lease->running_state)});
    }
    cache_.end(request.id);
    return lease->resume;
  }

  void feed_planner(std::size_t i) {
    const std::vector<Observation> observations = cache_.take_observations();
    const auto start = std::chrono::steady_clock::now();
    const std::size_t from = i + 1 + static_cast<std::size_t>(options_.plan_lag);
    if (planner_options_.checkpoints > 0) {
      for (const Observation& o : observations) planner_.observe(o);
      if (planner_.due()) plans_.push_back({from, planner_.solve()});
    } else if (forest_planner_.started()) {
      forest_planner_.apply(cache_.take_plan_events());
      if (forest_planner_.due()) {
        plans_.push_back({from, forest_planner_.solve()});
        result_.gap = plans_.back().plan->certificate->gap();
      }
    }
    planner_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void adopt_due_plan(std::size_t i) {
    for (; !plans_.empty() && plans_.front().from <= i; plans_.pop_front()) {
      cache_.adopt(plans_.front().plan);
    }
  }

  void count(std::size_t i, std::int32_t reusable, std::int32_t resume) {
    const CostModel& cost = options_.policy_costs.prefill;
    result_.prompt_tokens += trace_[i].length;
    result_.reusable_tokens += reusable;
    result_.recomputed_tokens += reusable - resume;
    result_.reusable_cost += cost(reusable);
    result_.recomputed_cost += cost.between(resume, reusable);
    if (!options_.each) return;
    const PrefixStats stats = cache_.stats();
    options_.each({.index = i,
                   .length = trace_[i].length,
                   .reusable = reusable,
                   .resume = resume,
                   .stored = static_cast<std::int64_t>(stats.stored),
                   .dropped = static_cast<std::int64_t>(stats.evicted),
                   .skipped = static_cast<std::int64_t>(stats.skipped)});
  }

  struct LaterPlan {
    std::size_t from = 0;  // the first request that uses it
    std::shared_ptr<const Plan> plan;
  };

  const Trace& trace_;
  const SimulatorOptions& options_;
  PlannerOptions planner_options_;
  DpPlanner planner_;
  ForestPlanner forest_planner_;
  std::deque<LaterPlan> plans_;
  double planner_seconds_ = 0;
  MemoryPools pools_;
  TimedPolicy* timed_;  // owned by the cache
  PrefixCache cache_;
  RadixForest seen_;  // every earlier prompt, where the trace does not state overlaps
  SimulatorResult result_;
};

}  // namespace

SimulatorResult simulate(const Trace& trace, std::unique_ptr<CachePolicy> policy,
                         const SimulatorOptions& options) {
  check(policy != nullptr, "a simulation needs a policy");
  check(options.plan_lag >= 0, "a plan is not used before it is made");
  return Simulation(trace, std::move(policy), options).run();
}

}  // namespace cairn::engine
