// SPDX-License-Identifier: Apache-2.0
#include "actors/planner_desk.hpp"

#include <chrono>
#include <utility>

#include "metrics/metrics.hpp"

namespace cairn::actors {

PlannerDesk::PlannerDesk(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)),
      mail_(mail),
      options_(engine::planner_options_for(shared_->options.policy, shared_->context_length)),
      planner_(options_) {}

void PlannerDesk::handle(const PlannerMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
}

void PlannerDesk::on(const Observed& m) {
  if (options_.checkpoints == 0) return;  // a policy without a plan
  for (const engine::Observation& o : m.observations) planner_.observe(o);
  if (planner_.due()) solve_and_publish();
}

void PlannerDesk::solve_and_publish() {
  const auto start = Clock::now();
  const auto plan = planner_.solve();
  const Metrics& metrics = *shared_->metrics;
  metrics.plan_solve_seconds().observe(std::chrono::duration<double>(Clock::now() - start).count());
  metrics.plan_states().set(options_.checkpoints);
  metrics.plan_expected_recompute_tokens().set(plan->expected_recompute_tokens);
  metrics.plan_expected_recompute_seconds().set(plan->expected_recompute_tokens *
                                                shared_->seconds_per_prefill_token.load());
  metrics.plan_published_timestamp_seconds().set(
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  mail_.prefix(PlanPublished{plan});
}

}  // namespace cairn::actors
