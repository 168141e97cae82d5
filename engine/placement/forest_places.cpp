// SPDX-License-Identifier: Apache-2.0
// Where the default rule would save states of a prompt: its end, its branch, its positions with a
// meaning, and the places that save most of what is expected to be asked of its path.
#include <algorithm>
#include <iterator>

#include "engine/placement/forest_policy.hpp"

namespace cairn::engine {
namespace {

constexpr int kKnownNodes = 64;  // of a path that are looked at; deeper ones first

// Rates at positions, so that those of an interval are two look-ups.
class Asked {
 public:
  explicit Asked(std::vector<Ask> asks) : asks_(std::move(asks)) {
    std::sort(asks_.begin(), asks_.end(),
              [](const Ask& x, const Ask& y) { return x.position < y.position; });
    sums_.push_back(0);
    for (const Ask& a : asks_) sums_.push_back(sums_.back() + a.rate);
  }
  const std::vector<Ask>& asks() const { return asks_; }
  /// Of [from, to).
  double rate(std::int32_t from, std::int32_t to) const { return before(to) - before(from); }

 private:
  double before(std::int32_t position) const {
    const auto at = std::lower_bound(asks_.begin(), asks_.end(), position,
                                     [](const Ask& a, std::int32_t p) { return a.position < p; });
    return sums_[static_cast<std::size_t>(at - asks_.begin())];
  }

  std::vector<Ask> asks_;  // ascending
  std::vector<double> sums_;
};

}  // namespace

std::int32_t ForestPolicy::rounded(std::int32_t position) const {
  return position < options_.round_from ? position : position - position % options_.round_to;
}

// The fresh part is asked for at the atoms of its first split. A known part that has to be computed
// again is passed anyway: at each of its nodes what leaves the path there, and has no state of its
// own, would be served by one.
std::vector<Ask> ForestPolicy::asks(const RequestView& request) const {
  std::vector<Ask> out;
  const std::vector<std::int32_t>& atoms = demand_->last_atoms();
  if (!atoms.empty() && !demand_->goes_on_untold()) {
    const double each = demand_->last_split_rate() / static_cast<double>(atoms.size());
    for (const std::int32_t atom : atoms) out.push_back({atom, each});
  }
  if (!options_.known) return out;
  PlanNode child = kNoPlanNode;  // on the path
  for (PlanNode n = request.end_node; n != request.overlap_node && n != kPlanRoot;
       n = tree()[n].parent) {
    child = n;
  }
  PlanNode node = request.overlap_node;
  for (int i = 0; i < kKnownNodes && tree()[node].depth > request.resume; ++i) {
    double rate = demand_->served(node);
    if (child != kNoPlanNode && !tree().claimed(child)) rate -= demand_->served(child);
    if (rate > 0) out.push_back({tree()[node].depth, rate});
    child = node;
    node = tree()[node].parent;
  }
  return out;
}

// Greedily the position that saves most of what the path is expected to be asked for.
void ForestPolicy::add_expected(const RequestView& request, std::vector<Placement>& out) const {
  const Asked asked(asks(request));
  if (asked.asks().empty()) return;
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
    for (const Ask& ask : asked.asks()) {
      const std::int32_t x = rounded(ask.position);
      if (x <= request.resume) continue;  // rounded to before what is computed
      const auto next = std::upper_bound(chosen.begin(), chosen.end(), x);
      const std::int32_t above = *std::prev(next);
      if (x <= above) continue;
      const std::int32_t below = next == chosen.end() ? request.length : *next;
      const double gain = asked.rate(x, below) * costs_.prefill.between(above, x);
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
  if (options_.structural == 0) return;
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

// A prompt that goes on where another ended has the state of that end, one token above: for exact
// repeats that one is needed, and a second one beside it would save a token.
bool ForestPolicy::branches(const RequestView& request) const {
  const std::int32_t fresh = request.overlap - request.resume;
  if (fresh <= 0 || request.overlap >= request.length - 1) return false;
  return fresh > 1 || demand_->kind(request.overlap_node) != PointKind::end;
}

std::vector<Placement> ForestPolicy::place(const RequestView& request) {
  std::vector<Placement> out;
  out.push_back({request.length - 1, StateKind::prompt_end});
  if (branches(request)) {
    // Where the rounded place has a state already, this branch is worth one of its own.
    const std::int32_t near = rounded(request.overlap);
    out.push_back({near > request.resume ? near : request.overlap, StateKind::branch});
  }
  add_structure(request, out);
  add_expected(request, out);
  tidy(request, out);
  return out;
}

}  // namespace cairn::engine
