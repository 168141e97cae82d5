// SPDX-License-Identifier: Apache-2.0
// A prefix cache without tokens: the plan tree, a policy and a budget, where a request is only its
// length and where it leaves an earlier one. For trying a policy on a list of requests.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

/// Nothing is forgotten: a place that no state is kept at stays a node while a prompt ends or forks
/// there. One thread.
class ShapeCache {
 public:
  /// The policy outlives the cache.
  ShapeCache(CachePolicy& policy, ByteCosts costs, std::uint64_t budget);
  ShapeCache(const ShapeCache&) = delete;
  ShapeCache& operator=(const ShapeCache&) = delete;

  struct Served {
    PlanNode end = kPlanRoot;   // where the prompt ends
    std::int32_t reusable = 0;  // overlap, at most length - 1
    std::int32_t resume = 0;    // of these, not recomputed
    std::int32_t written = 0;   // states
    std::int32_t evicted = 0;   // states of earlier prompts
    std::int32_t refused = 0;   // places of this one that lost
    Observation seen;           // for a planner
  };
  /// A prompt of `length` tokens that shares `overlap` of them with the one that ends at `parent`
  /// (the root for none). Throws InvariantError when the policy names no victim.
  Served request(PlanNode parent, std::int32_t overlap, std::int32_t length);

  const PlanTree& tree() const { return tree_; }

 private:
  PlanNode node_at(PlanNode below, std::int32_t depth);
  PlanNode enter(PlanNode parent, RequestView& view);
  std::vector<PlanNode> claim_places(const RequestView& view);
  void drop(PlanNode node);

  CachePolicy& policy_;
  PlanTree tree_;
  std::uint64_t budget_;
  std::vector<bool> is_end_;  // by node
  std::uint64_t tick_ = 0;
  bool spare_room_ = true;
};

}  // namespace cairn::engine
