// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/rules_marconi.hpp"

#include <algorithm>
#include <limits>

#include "engine/placement/shape_cache.hpp"

namespace cairn::engine {
namespace {

// Ways on that are looked at before a place counts as a fork: a bound on the work of a look.
constexpr int kManyWays = 40;

constexpr double kAlphas[] = {0, 0.25, 0.5, 1, 2, 4, 8};
constexpr std::size_t kWindowFactor = 5;  // requests after the first eviction, by those before it
constexpr std::size_t kMinWindow = 256;
constexpr std::size_t kMaxRows = 4096;

// Smallest and largest of what was shown; 1 for all when they are one.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void show(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  double scaled(double x) const { return high > low ? (x - low) / (high - low) : 1; }
};

}  // namespace

bool MarconiPolicy::is_fork(PlanNode node) const {
  for (;;) {
    PlanNode kept = kNoPlanNode;  // the only way on with a claim
    int ways = 0;
    for (PlanNode c = tree()[node].first_child; c != kNoPlanNode; c = tree()[c].next) {
      if (++ways == kManyWays) return true;
      if (tree()[c].claims == 0) continue;
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

PlanNode MarconiPolicy::least(const Usable& usable) {
  struct Candidate {
    PlanNode node;
    double last_used, efficiency;
  };
  std::vector<Candidate> candidates;
  Range recency, efficiencies;
  for (const LruOrder::Entry& e : order()) {
    if (!usable(e.node) || is_fork(e.node)) continue;
    candidates.push_back({e.node, static_cast<double>(e.tick), efficiency(e.node)});
    recency.show(candidates.back().last_used);
    efficiencies.show(candidates.back().efficiency);
  }
  PlanNode found = kNoPlanNode;
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& c : candidates) {
    const double score = recency.scaled(c.last_used) + alpha_ * efficiencies.scaled(c.efficiency);
    if (score < least) {
      least = score;
      found = c.node;
    }
  }
  return found != kNoPlanNode ? found : order().least(usable);
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
  if (!full_ || rows_.size() < window) {
    note(request);
  } else {
    try_next();
  }
}

PlanNode TunedMarconiPolicy::least(const Usable& usable) {
  if (!full_) full_ = rows_.size();
  return MarconiPolicy::least(usable);
}

void TunedMarconiPolicy::try_next() {
  const double recomputed = recomputed_under(kAlphas[tried_]);
  if (tried_ == 0 || recomputed < best_) {
    best_ = recomputed;
    set_alpha(kAlphas[tried_]);
  }
  done_ = ++tried_ == std::size(kAlphas);
  if (done_) std::vector<Row>().swap(rows_);
}

double TunedMarconiPolicy::recomputed_under(double alpha) const {
  MarconiPolicy policy("trial", alpha);
  policy.learn_costs(costs());
  ShapeCache cache(policy, tree().costs(), budget_ > 0 ? budget_ : held_);
  std::vector<PlanNode> ends;
  ends.reserve(rows_.size());
  double recomputed = 0;
  for (const Row& row : rows_) {
    const PlanNode parent = row.parent < 0 ? kPlanRoot : ends[static_cast<std::size_t>(row.parent)];
    const auto served = cache.request(parent, parent == kPlanRoot ? 0 : row.overlap, row.length);
    recomputed += costs().prefill.between(served.resume, served.reusable);
    ends.push_back(served.end);
  }
  return recomputed;
}

}  // namespace cairn::engine
