// SPDX-License-Identifier: Apache-2.0
// The default rule: every state, kept or to be kept, is worth the recompute that its loss is
// predicted to cost per tick and byte (placement.md section 5).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/placement/claim_forest.hpp"
#include "engine/placement/demand_forest.hpp"

namespace cairn::engine {

/// Requests per tick whose overlap is expected to end there.
struct Ask {
  std::int32_t position = 0;
  double rate = 0;
};

struct ForestOptions {
  DemandOptions demand;
  std::size_t interior = 4;         // planned positions of a prompt
  std::size_t interior_spare = 16;  // while nothing has had to be evicted
  std::size_t structural = 16;      // of its message starts: the first and the last ones
  bool known = true;                // known nodes that are computed again are planned for, too
  double entry = 2;                 // a planned position must be worth this many times the price
  double price_keep = 0.95;         // of the moving average of dropped densities
  std::int32_t round_from = 512;    // depth from which branch and interior positions are rounded
  std::int32_t round_to = 32;
  std::int64_t exact_below = 64;  // claims up to which what goes is solved for exactly
  double byte_worth = 1;          // there: of a byte left free, in prices
};

class ForestPolicy final : public CachePolicy {
 public:
  explicit ForestPolicy(ForestOptions options = {});

  std::string name() const override { return "forest"; }
  void attach(const PlanTree& tree) override;
  void observe(const RequestView& request) override;
  std::vector<Placement> place(const RequestView& request) override;
  PlanNode least(const Usable& usable) override;
  void learn_costs(const PolicyCosts& costs) override { costs_ = costs; }
  void learn_budget(std::uint64_t bytes) override { make_fit(bytes); }
  void make_fit(std::uint64_t bytes) override {
    if (bytes != budget_) left_out_.clear();
    budget_ = bytes;
  }
  /// Takes the tables that the planner's replica computed from the same requests.
  void adopt(const std::shared_ptr<const Plan>& plan) override;
  std::vector<std::byte> save() const override { return demand_->save(); }
  bool load(std::span<const std::byte> bytes) override { return demand_->load(bytes); }
  const DemandForest* demand_forest() const override { return demand_.get(); }
  void changing(const TreeOp& op) override;
  void changed(const TreeOp& op) override;

  double price() const override { return price_; }
  double loss_per_byte(PlanNode node) const override;
  const DemandForest& demand() const { return *demand_; }
  /// Predicted cost per tick of losing a claim.
  double loss(PlanNode node) const;

 private:
  using Entry = std::pair<double, PlanNode>;  // loss per byte when it was listed
  PlanNode solved_victim(const Usable& usable);
  PlanNode listed_victim(const Usable& usable);
  void list(PlanNode node);
  void relist();
  std::int32_t rounded(std::int32_t position) const;
  void add_structure(const RequestView& request, std::vector<Placement>& out) const;
  bool pays(const Placement& place, std::int32_t above, std::int32_t below) const;
  bool branches(const RequestView& request) const;
  std::vector<Ask> asks(const RequestView& request) const;
  void add_expected(const RequestView& request, std::vector<Placement>& out) const;

  ForestOptions options_;
  PolicyCosts costs_;
  std::unique_ptr<DemandForest> demand_;
  std::vector<Entry> heap_;  // the least on top
  double price_ = 0;
  std::uint64_t budget_ = 0;  // that the claims are to fit; 0: unknown
  ClaimForest claims_;
  std::vector<PlanNode> left_out_;  // of the standing solution, last one first
};

}  // namespace cairn::engine
