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
// best plan within the budget leaves out goes instead. One solution serves until the claims change.
PlanNode ForestPolicy::solved_victim(const Usable& usable) {
  if (budget_ == 0 || tree().claims() > options_.exact_below || tree().bytes() <= budget_) {
    return kNoPlanNode;
  }
  if (left_out_.empty()) {
    left_out_ =
        claims_.left_out(tree(), *demand_, costs_.prefill, static_cast<double>(budget_), 0, usable);
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

std::int32_t ForestPolicy::rounded(std::int32_t position) const {
  return position < options_.round_from ? position : position - position % options_.round_to;
}

// Greedily the position that saves most of what the fresh part's atoms are expected to cost.
void ForestPolicy::add_interior(const RequestView& request, std::vector<Placement>& out) const {
  const std::vector<std::int32_t>& atoms = demand_->last_atoms();
  if (atoms.empty()) return;
  const double each = demand_->last_split_rate() / static_cast<double>(atoms.size());
  // Per tick: what the place must earn, and what writing it costs over the hits it may bring.
  const double held = options_.entry * price_ * static_cast<double>(tree().costs().state_bytes);
  const double hits = demand_->last_split_hits();
  const double written = hits > 0 ? costs_.write * demand_->last_split_rate() / hits : 0;
  const double least = std::max(held, written);
  std::vector<std::int32_t> chosen{request.resume};
  for (const Placement& p : out) chosen.push_back(p.position);
  std::sort(chosen.begin(), chosen.end());
  const std::size_t most = request.spare_room ? options_.interior_spare : options_.interior;
  for (std::size_t k = 0; k < most; ++k) {
    double best = 0;
    std::int32_t where = 0;
    for (const std::int32_t atom : atoms) {
      const std::int32_t x = rounded(atom);
      if (x <= request.resume) continue;  // rounded to before the fresh part
      const auto next = std::upper_bound(chosen.begin(), chosen.end(), x);
      const std::int32_t above = *std::prev(next);
      if (x <= above) continue;
      const std::int32_t below = next == chosen.end() ? request.length : *next;
      double served = 0;
      for (const std::int32_t a : atoms) served += a >= x && a < below ? each : 0;
      const double gain = served * costs_.prefill.between(above, x);
      if (gain > best) {
        best = gain;
        where = x;
      }
    }
    if (where == 0 || best <= least) return;
    out.push_back({where, StateKind::planned});
    chosen.insert(std::upper_bound(chosen.begin(), chosen.end(), where), where);
  }
}

// A client can send thousands of messages in one prompt: each would be claimed, and most given up
// again at the price of what is cached. What it marked is few.
void ForestPolicy::add_structure(const RequestView& request, std::vector<Placement>& out) const {
  std::vector<Placement> fresh;
  for (const StructuralPoint& p : request.structure) {
    if (p.position <= request.resume) continue;
    (p.kind == StateKind::pinned ? out : fresh).push_back({p.position, p.kind});
  }
  if (fresh.size() > options_.structural) {
    fresh.erase(fresh.begin() + 1,
                fresh.end() - static_cast<std::ptrdiff_t>(options_.structural - 1));
  }
  std::int32_t above = request.resume;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const bool last = i + 1 == fresh.size();
    const std::int32_t below = last ? request.length - 1 : fresh[i + 1].position;
    if (!pays(fresh[i], above, below)) continue;
    above = fresh[i].position;
    out.push_back(fresh[i]);
  }
}

// Whether the hits that a place with a meaning is expected to bring, on itself and on the atoms
// down to the place below, save more than writing it costs: chats that are only appended to pay for
// no more than their ends once that is known.
bool ForestPolicy::pays(const Placement& place, std::int32_t above, std::int32_t below) const {
  const std::vector<std::int32_t>& atoms = demand_->last_atoms();
  const auto here = std::count_if(atoms.begin(), atoms.end(), [&](std::int32_t atom) {
    return atom >= place.position && atom < below;
  });
  double hits = demand_->meaning_hits(place.kind);
  if (here > 0) {
    hits +=
        demand_->last_split_hits() * static_cast<double>(here) / static_cast<double>(atoms.size());
  }
  return hits * costs_.prefill.between(above, place.position) > costs_.write;
}

std::vector<Placement> ForestPolicy::place(const RequestView& request) {
  std::vector<Placement> out;
  out.push_back({request.length - 1, StateKind::prompt_end});
  if (request.overlap > request.resume && request.overlap < request.length - 1) {
    // Where the rounded place has a state already, this branch is worth one of its own.
    const std::int32_t near = rounded(request.overlap);
    out.push_back({near > request.resume ? near : request.overlap, StateKind::branch});
  }
  add_structure(request, out);
  add_interior(request, out);
  tidy(request, out);
  return out;
}

}  // namespace cairn::engine
