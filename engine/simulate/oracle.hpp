// SPDX-License-Identifier: Apache-2.0
// The default rule with the trace's own future in place of predictions: how far information is
// from what could be known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/simulate/trace.hpp"

namespace cairn::engine {

/// For one replay of `trace`, request by request. Demand of a place: the requests to come whose
/// overlap ends there, each discounted by exp(-distance / 64 requests). Throws LoadError where the
/// trace does not state overlaps and parents.
class OraclePolicy final : public CachePolicy {
 public:
  explicit OraclePolicy(const Trace& trace);

  std::string name() const override { return "oracle"; }
  void observe(const RequestView& request) override;
  std::vector<Placement> place(const RequestView& request) override;
  /// O(requests within the horizon * nodes on a path + claims).
  PlanNode least(const Usable& usable) override;
  void learn_costs(const PolicyCosts& costs) override { costs_ = costs; }
  void changed(const TreeOp& op) override;
  double loss_per_byte(PlanNode node) const override;

 private:
  struct Visit {
    std::int64_t parent = -1;
    std::int32_t depth = 0;
  };
  double weight(std::size_t request) const;
  void count();

  PolicyCosts costs_;
  std::vector<Visit> visits_;                       // by request
  std::vector<std::vector<std::size_t>> children_;  // by request: those that leave it, ascending
  std::vector<PlanNode> ends_;                      // by request, so far
  std::vector<double> served_;                      // by node
  bool counted_ = false;                            // served_ is of the tree as it is
};

}  // namespace cairn::engine
