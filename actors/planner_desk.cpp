// SPDX-License-Identifier: Apache-2.0
#include "actors/planner_desk.hpp"

#include <chrono>
#include <utility>

#include "actors/give_way.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {

PlannerDesk::PlannerDesk(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)),
      mail_(mail),
      options_(engine::planner_options_for(shared_->options.policy, shared_->context_length)),
      planner_(options_) {
  shared_->plan_backlog = 0;  // what an earlier planner had not read went with it
}

void PlannerDesk::handle(const PlannerMessage& message) {
  if (!gives_way_) give_way_to_inference();
  gives_way_ = true;
  std::visit([this](const auto& m) { on(m); }, message);
}

void PlannerDesk::on(const Observed& m) {
  shared_->plan_backlog -= m.weight;
  if (options_.checkpoints > 0) {
    for (const engine::Observation& o : m.observations) planner_.observe(o);
    if (planner_.due()) publish(planner_.solve());
  } else if (m.replica || m.events) {
    follow(m);
  }
}

void PlannerDesk::follow(const Observed& m) {
  if (m.replica) {
    forest_.start(m.replica, m.budget);
    asked_ = false;
  } else if (!forest_.started()) {
    if (!asked_) mail_.prefix(WantReplica{});
    asked_ = true;
    return;
  }
  forest_.learn_costs(m.costs);
  if (m.events) forest_.apply(*m.events);
  if (!forest_.due()) return;
  const auto plan = forest_.solve();
  publish(plan);
  if (plan->certificate) show(*plan->certificate);
}

void PlannerDesk::publish(std::shared_ptr<const engine::Plan> plan) {
  const Metrics& metrics = *shared_->metrics;
  metrics.plan_solve_seconds().observe(plan->solve_seconds);
  metrics.plan_states().set(plan->certificate ? static_cast<double>(plan->certificate->claims)
                                              : options_.checkpoints);
  metrics.plan_expected_recompute_tokens().set(plan->expected_recompute_tokens);
  metrics.plan_expected_recompute_seconds().set(plan->expected_recompute_tokens *
                                                shared_->seconds_per_prefill_token.load());
  metrics.plan_published_timestamp_seconds().set(
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  mail_.prefix(PlanPublished{std::move(plan)});
}

// Costs are in tokens here: prefix tells them that way.
void PlannerDesk::show(const engine::PlanCertificate& certificate) const {
  const Metrics& metrics = *shared_->metrics;
  metrics.plan_bound_recompute_tokens().set(certificate.bound);
  metrics.plan_ideal_recompute_tokens().set(certificate.ideal);
  metrics.plan_regret_tokens().set(certificate.regret());
  metrics.plan_gap_ratio().set(certificate.gap_ratio());
}

}  // namespace cairn::actors
