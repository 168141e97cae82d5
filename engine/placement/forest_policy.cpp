// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_policy.hpp"

#include <algorithm>
#include <functional>

#include "engine/placement/planner.hpp"

namespace cairn::engine {

ForestPolicy::ForestPolicy(ForestOptions options) : options_(options) {}

void ForestPolicy::attach(const PlanTree& tree) {
  CachePolicy::attach(tree);
  demand_ = std::make_unique<DemandForest>(tree, options_.demand);
}

// Sums that were added to and taken from in turn can end a rounding error below nothing.
double ForestPolicy::loss(PlanNode node) const {
  const std::int32_t above = tree()[tree().claim_above(node)].depth;
  const double saved = costs_.prefill.between(above, tree()[node].depth) - costs_.restore;
  return std::max(demand_->served(node), 0.0) * std::max(saved, 0.0);
}

double ForestPolicy::loss_per_byte(PlanNode node) const {
  return loss(node) / static_cast<double>(tree().added_bytes(node));
}

void ForestPolicy::list(PlanNode node) {
  heap_.emplace_back(loss_per_byte(node), node);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void ForestPolicy::relist() {
  heap_.clear();
  for (const PlanNode n : tree().claimed()) heap_.emplace_back(loss_per_byte(n), n);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void ForestPolicy::changing(const TreeOp& op) { demand_->changing(op); }

void ForestPolicy::changed(const TreeOp& op) {
  demand_->changed(op);
  if (op.type == TreeOp::Type::clear) heap_.clear();
  if (op.type != TreeOp::Type::release && op.type != TreeOp::Type::merge) left_out_.clear();
  if (op.type != TreeOp::Type::claim || op.before != Claim::none) return;
  list(op.node);
  // The one above serves less from now on.
  const PlanNode above = tree().claim_above(op.node);
  if (above != kPlanRoot) list(above);
}

void ForestPolicy::observe(const RequestView& request) {
  if (demand_->observe(request)) relist();
}

void ForestPolicy::adopt(const std::shared_ptr<const Plan>& plan) {
  if (plan && plan->rates) demand_->adopt(plan->rates);
}

// Few objects do not fill a budget evenly, so the least dense is not always the one to go: what the
// best plan within the budget leaves out goes instead. A byte left free saves what the next request
// would have to drop, so it counts at the price. One solution serves until the claims change.
PlanNode ForestPolicy::solved_victim(const Usable& usable) {
  if (budget_ == 0 || tree().claims() > options_.exact_below || tree().bytes() <= budget_) {
    return kNoPlanNode;
  }
  if (left_out_.empty()) {
    left_out_ = claims_.left_out(tree(), *demand_, costs_.prefill, static_cast<double>(budget_),
                                 options_.byte_worth * price_, usable);
    std::reverse(left_out_.begin(), left_out_.end());
  }
  while (!left_out_.empty()) {
    const PlanNode node = left_out_.back();
    left_out_.pop_back();
    if (tree()[node].claim != Claim::none && usable(node)) return node;
  }
  return kNoPlanNode;
}

PlanNode ForestPolicy::least(const Usable& usable) {
  PlanNode found = solved_victim(usable);
  if (found == kNoPlanNode) found = listed_victim(usable);
  if (found != kNoPlanNode) {
    price_ = options_.price_keep * price_ + (1 - options_.price_keep) * loss_per_byte(found);
  }
  return found;
}

PlanNode ForestPolicy::listed_victim(const Usable& usable) {
  constexpr double kSlack = 1 + 1e-9;
  std::vector<Entry> passed;
  PlanNode found = kNoPlanNode;
  while (!heap_.empty() && found == kNoPlanNode) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [listed, node] = heap_.back();
    heap_.pop_back();
    if (node >= tree().slots() || tree()[node].claim == Claim::none) continue;
    const double now = loss_per_byte(node);
    if (now > listed * kSlack) {
      heap_.emplace_back(now, node);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    } else if (!usable(node)) {
      passed.emplace_back(now, node);
    } else {
      found = node;
    }
  }
  for (const Entry& e : passed) {
    heap_.push_back(e);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  return found;
}

}  // namespace cairn::engine
