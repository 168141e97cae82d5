// SPDX-License-Identifier: Apache-2.0
// The rules to compare with (placement.md section 6) but for `marconi`: where each wants states,
// and least recently used first when room is short.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/placement/lru_order.hpp"
#include "engine/placement/path_notes.hpp"
#include "engine/placement/planner.hpp"

namespace cairn::engine {

/// `none`, and `kv_only`: KV without a state saves nothing but the last layer, so that it is not
/// held either.
class NothingPolicy final : public CachePolicy {
 public:
  explicit NothingPolicy(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void observe(const RequestView&) override {}
  std::vector<Placement> place(const RequestView&) override { return {}; }
  PlanNode least(const Usable&) override { return kNoPlanNode; }
  bool keeps_anything() const override { return false; }

 private:
  std::string name_;
};

/// Which states a request makes recent.
enum class Touch : std::uint8_t {
  resumed,  // the one it resumes from
  path,     // all on its path, up to where its overlap ends
};

/// The prompt's end n - 1; with `branch` the overlap's end t when c < t < n - 1; and of the
/// structural points those worth a state: pinned ones (the last four), the first `turn` point after
/// the start (end of the system prompt) and the last two (start of the last user message,
/// generation prompt). Where two agree on a position the surer kind stays. Derived rules add
/// `planned` positions in between.
class RulePolicy : public CachePolicy {
 public:
  RulePolicy(std::string name, bool branch, Touch touch = Touch::resumed)
      : name_(std::move(name)), branch_(branch), touch_(touch) {}

  std::string name() const override { return name_; }
  void observe(const RequestView& request) override;
  std::vector<Placement> place(const RequestView& request) override;
  PlanNode least(const Usable& usable) override { return order_.least(usable); }
  void changed(const TreeOp& op) override;
  void changing(const TreeOp& op) override;

 protected:
  /// Any positions; those outside (resume, length) are dropped.
  virtual std::vector<std::int32_t> interior(const RequestView& /*request*/) const { return {}; }
  const LruOrder& order() const { return order_; }

 private:
  void touch(PlanNode node);

  std::string name_;
  bool branch_;
  Touch touch_;
  LruOrder order_;
  std::uint64_t tick_ = 1;  // of the last request
};

/// Positions that depend on the prompt's length alone.
class SpacedPolicy final : public RulePolicy {
 public:
  using Spaced = std::function<std::vector<std::int32_t>(std::int32_t length)>;
  SpacedPolicy(std::string name, bool branch, Touch touch, Spaced spaced)
      : RulePolicy(std::move(name), branch, touch), spaced_(std::move(spaced)) {}

 protected:
  std::vector<std::int32_t> interior(const RequestView& request) const override {
    return spaced_(request.length);
  }

 private:
  Spaced spaced_;
};

/// Positions of the plan in force: `dp`, `dp_frac`. None before the first plan.
class PlannedPolicy final : public RulePolicy {
 public:
  PlannedPolicy(std::string name, bool branch) : RulePolicy(std::move(name), branch) {}

  Observation seen(const RequestView& request) const override;
  void adopt(const std::shared_ptr<const Plan>& plan) override { plan_ = plan; }
  void changed(const TreeOp& op) override;

 protected:
  std::vector<std::int32_t> interior(const RequestView& request) const override;

 private:
  std::shared_ptr<const Plan> plan_;
  PathNotes<std::int32_t> lengths_;  // of the prompt that first went there
};

}  // namespace cairn::engine
