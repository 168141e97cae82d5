// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/rules_marconi.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "engine/placement/shape_cache.hpp"

namespace cairn::engine {
namespace {

// So many ways on make a fork even of a place with nothing kept below. Not in the published rule,
// under which few-shot prompts recompute up to 54 points more than expected.csv says
// (bbh3shot_live20 at 1 GB, alpha 4); of the values tried from 2 to 128 those about 40 come
// nearest.
constexpr int kManyWays = 40;

constexpr double kAlphas[] = {0, 0.25, 0.5, 1, 2, 4, 8};
constexpr std::size_t kWindowFactor = 5;  // requests after the first eviction, by those before it
constexpr std::size_t kMinWindow = 256;
constexpr std::size_t kMaxRows = 4096;
// Replayed by each trial beside a request. With two, what came before the first eviction is made up
// for within as many requests after it, which the window leaves time for.
constexpr int kRowsPerRequest = 2;

// 1 for all values when there is only one.
struct Range {
  double low, high;
  double scaled(double x) const { return high > low ? (x - low) / (high - low) : 1; }
};

}  // namespace

bool MarconiPolicy::is_fork(PlanNode node) const {
  for (;;) {
    PlanNode kept = kNoPlanNode;  // the only way on with a claim
    int ways = 0;
    for (PlanNode c = tree()[node].first_child; c != kNoPlanNode; c = tree()[c].next) {
      if (++ways == kManyWays) return true;
      if (tree().claims(c) == 0) continue;
      if (kept != kNoPlanNode) return true;
      kept = c;
    }
    if (kept == kNoPlanNode || tree()[kept].claim != Claim::none) return false;
    node = kept;
  }
}

double MarconiPolicy::efficiency(PlanNode node) const {
  const std::int32_t above = tree()[tree().claim_above(node)].depth;
  return costs_.prefill.between(above, tree()[node].depth) /
         static_cast<double>(tree().exclusive_bytes(node));
}

void MarconiPolicy::mark(PlanNode node) {
  if (known_.size() <= node) known_.resize(node + std::size_t{1});
  if (known_[node].stale) return;
  known_[node].stale = true;
  stale_.push_back(node);
}

void MarconiPolicy::mark_above(PlanNode node) {
  if (!tree().claimed(node)) node = tree().claim_above(node);
  if (node != kPlanRoot) mark(node);
}

// The claims below, or only those next below.
void MarconiPolicy::mark_below(PlanNode node, bool through_claims) {
  std::vector<PlanNode> open{node};
  while (!open.empty()) {
    const PlanNode n = open.back();
    open.pop_back();
    for (PlanNode c = tree()[n].first_child; c != kNoPlanNode; c = tree()[c].next) {
      if (tree().claims(c) == 0) continue;
      const bool claimed = tree().claimed(c);
      if (claimed) mark(c);
      if (!claimed || through_claims) open.push_back(c);
    }
  }
}

// Who sees it when the node's claim comes or goes: the claim above, those next below, and one
// beside that shares an edge with this claim alone.
void MarconiPolicy::mark_around(PlanNode node) {
  mark_above(tree()[node].parent);
  mark_below(node, false);
  PlanNode shared = kPlanRoot;
  for (PlanNode n = node; n != kPlanRoot && tree().claims(n) <= 2; n = tree()[n].parent) shared = n;
  if (shared == kPlanRoot) return;
  mark_above(shared);
  mark_below(shared, true);
}

void MarconiPolicy::changed(const TreeOp& op) {
  RulePolicy::changed(op);
  switch (op.type) {
    case TreeOp::Type::claim:
      if (op.before != Claim::none) break;
      mark(op.node);
      mark_around(op.node);
      break;
    case TreeOp::Type::release:
      mark_around(op.node);
      break;
    case TreeOp::Type::leaf:
      mark_above(op.other);
      break;
    case TreeOp::Type::clear:
      by_efficiency_.clear();
      known_.clear();
      stale_.clear();
      break;
    case TreeOp::Type::split:
    case TreeOp::Type::merge:
    case TreeOp::Type::remove:
      break;
  }
}

void MarconiPolicy::changing(const TreeOp& op) {
  if (op.type == TreeOp::Type::release) drop(op.node);
  if (op.type == TreeOp::Type::remove) mark_above(tree()[op.node].parent);
  RulePolicy::changing(op);
}

void MarconiPolicy::learn_costs(const PolicyCosts& costs) {
  const bool same = costs.prefill.a == costs_.prefill.a && costs.prefill.b == costs_.prefill.b;
  costs_ = costs;
  if (same) return;
  for (const LruOrder::Entry& e : order()) mark(e.node);
}

void MarconiPolicy::drop(PlanNode node) {
  if (node >= known_.size() || !known_[node].candidate) return;
  by_efficiency_.erase({known_[node].efficiency, node});
  known_[node].candidate = false;
}

void MarconiPolicy::refresh() {
  for (const PlanNode node : stale_) {
    drop(node);
    known_[node].stale = false;
    if (tree()[node].claim == Claim::none || is_fork(node)) continue;
    known_[node].efficiency = efficiency(node);
    known_[node].candidate = true;
    by_efficiency_.insert({known_[node].efficiency, node});
  }
  stale_.clear();
}

PlanNode MarconiPolicy::least(const Usable& usable) {
  refresh();
  const auto usable_candidate = [&](const auto& e) {
    return known_[e.node].candidate && usable(e.node);
  };
  const auto next_of = [&](auto from, auto end) {
    return std::find_if(from, end, usable_candidate);
  };
  auto old = next_of(order().begin(), order().end());
  auto poor = next_of(by_efficiency_.begin(), by_efficiency_.end());
  if (poor == by_efficiency_.end()) return order().least(usable);
  const auto newest = next_of(std::make_reverse_iterator(order().end()),
                              std::make_reverse_iterator(order().begin()));
  const auto best = next_of(by_efficiency_.rbegin(), by_efficiency_.rend());
  const Range recency{static_cast<double>(old->tick), static_cast<double>(newest->tick)};
  const Range efficiencies{poor->efficiency, best->efficiency};

  const auto sum = [&](std::uint64_t tick, double efficiency) {
    return recency.scaled(static_cast<double>(tick)) + alpha_ * efficiencies.scaled(efficiency);
  };
  PlanNode found = kNoPlanNode;
  double least = std::numeric_limits<double>::infinity();
  const auto show = [&](PlanNode node) {
    const double score = sum(order()[node].tick, known_[node].efficiency);
    if (score > least || (score == least && !(order()[node] < order()[found]))) return;
    least = score;
    found = node;
  };
  // Every candidate that neither order has shown yet is no older and no poorer than both heads.
  while (old != order().end() && poor != by_efficiency_.end() &&
         sum(old->tick, poor->efficiency) <= least) {
    show(old->node);
    show(poor->node);
    old = next_of(std::next(old), order().end());
    poor = next_of(std::next(poor), by_efficiency_.end());
  }
  return found;
}

void TunedMarconiPolicy::changed(const TreeOp& op) {
  MarconiPolicy::changed(op);
  first_.changed(op, forgotten_ + static_cast<std::int64_t>(rows_.size()));
}

void TunedMarconiPolicy::note(const RequestView& request) {
  if (rows_.size() == kMaxRows && !full_) {  // nothing to learn from so far
    forgotten_ += static_cast<std::int64_t>(rows_.size());
    rows_.clear();
  }
  Row row{request.length, request.overlap, -1};
  if (request.overlap > 0) {
    const std::int64_t parent = first_[request.overlap_node] - forgotten_;
    const bool known = parent >= 0 && parent < static_cast<std::int64_t>(rows_.size());
    if (known && rows_[static_cast<std::size_t>(parent)].length >= request.overlap) {
      row.parent = static_cast<std::int32_t>(parent);
    }
  }
  rows_.push_back(row);
}

void TunedMarconiPolicy::observe(const RequestView& request) {
  MarconiPolicy::observe(request);
  if (done_) return;
  held_ = std::max(held_, tree().bytes());
  const std::size_t window =
      full_ ? std::min(*full_ + std::max(kWindowFactor * *full_, kMinWindow), kMaxRows) : kMaxRows;
  if (rows_.size() < window) note(request);
  if (full_ && go_on() && rows_.size() >= window) decide();
}

PlanNode TunedMarconiPolicy::least(const Usable& usable) {
  if (!full_) full_ = rows_.size();
  return MarconiPolicy::least(usable);
}

struct TunedMarconiPolicy::Trial {
  Trial(double alpha, const PolicyCosts& costs, ByteCosts bytes, std::uint64_t budget)
      : policy("trial", alpha), cache(policy, bytes, budget) {
    policy.learn_costs(costs);
  }
  void replay(const Row& row, const CostModel& prefill) {
    const PlanNode parent = row.parent < 0 ? kPlanRoot : ends[static_cast<std::size_t>(row.parent)];
    const auto served = cache.request(parent, parent == kPlanRoot ? 0 : row.overlap, row.length);
    recomputed += prefill.between(served.resume, served.reusable);
    ends.push_back(served.end);
  }
  MarconiPolicy policy;
  ShapeCache cache;
  std::vector<PlanNode> ends;  // by row
  double recomputed = 0;
};

TunedMarconiPolicy::TunedMarconiPolicy(std::string name) : MarconiPolicy(std::move(name), 0) {}
TunedMarconiPolicy::~TunedMarconiPolicy() = default;

void TunedMarconiPolicy::start_trials() {
  for (const double alpha : kAlphas) {
    trials_.push_back(
        std::make_unique<Trial>(alpha, costs(), tree().costs(), budget_ > 0 ? budget_ : held_));
  }
}

bool TunedMarconiPolicy::go_on() {
  if (trials_.empty()) start_trials();
  bool all = true;
  for (const auto& t : trials_) {
    for (int i = 0; i < kRowsPerRequest && t->ends.size() < rows_.size(); ++i) {
      t->replay(rows_[t->ends.size()], costs().prefill);
    }
    all = all && t->ends.size() == rows_.size();
  }
  return all;
}

void TunedMarconiPolicy::decide() {
  const auto best =
      std::min_element(trials_.begin(), trials_.end(),
                       [](const auto& a, const auto& b) { return a->recomputed < b->recomputed; });
  set_alpha((*best)->policy.alpha());
  trials_.clear();
  rows_ = {};
  done_ = true;
}

}  // namespace cairn::engine
