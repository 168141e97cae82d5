// SPDX-License-Identifier: Apache-2.0
// A policy with a clock around its decisions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

/// Forwards everything. The clock covers observe, place and least; what a rule does as the tree
/// changes costs less than reading a clock.
class TimedPolicy final : public CachePolicy {
 public:
  explicit TimedPolicy(std::unique_ptr<CachePolicy> policy) : policy_(std::move(policy)) {}

  double seconds() const { return std::chrono::duration<double>(spent_).count(); }

  std::string name() const override { return policy_->name(); }
  void attach(const PlanTree& tree) override { policy_->attach(tree); }
  void observe(const RequestView& request) override {
    const Stretch stretch(spent_);
    policy_->observe(request);
  }
  Observation seen(const RequestView& request) const override { return policy_->seen(request); }
  std::vector<Placement> place(const RequestView& request) override {
    const Stretch stretch(spent_);
    return policy_->place(request);
  }
  PlanNode least(const Usable& usable) override {
    const Stretch stretch(spent_);
    return policy_->least(usable);
  }
  bool keeps_anything() const override { return policy_->keeps_anything(); }
  bool keeps_answer_end() const override { return policy_->keeps_answer_end(); }
  std::vector<std::byte> save() const override { return policy_->save(); }
  bool load(std::span<const std::byte> bytes) override { return policy_->load(bytes); }
  const DemandForest* demand_forest() const override { return policy_->demand_forest(); }
  double loss_per_byte(PlanNode node) const override { return policy_->loss_per_byte(node); }
  double price() const override { return policy_->price(); }
  void learn_budget(std::uint64_t bytes) override { policy_->learn_budget(bytes); }
  void make_fit(std::uint64_t bytes) override { policy_->make_fit(bytes); }
  void learn_costs(const PolicyCosts& costs) override { policy_->learn_costs(costs); }
  void adopt(const std::shared_ptr<const Plan>& plan) override { policy_->adopt(plan); }
  void changing(const TreeOp& op) override { policy_->changing(op); }
  void changed(const TreeOp& op) override { policy_->changed(op); }

 private:
  using Clock = std::chrono::steady_clock;
  class Stretch {
   public:
    explicit Stretch(Clock::duration& total) : total_(total) {}
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;
    ~Stretch() { total_ += Clock::now() - start_; }

   private:
    Clock::duration& total_;
    Clock::time_point start_ = Clock::now();
  };

  std::unique_ptr<CachePolicy> policy_;
  Clock::duration spent_{};
};

}  // namespace cairn::engine
