// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_editor.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace cairn::engine {
namespace {

constexpr std::int64_t kMostSteps = 1 << 27;  // of one editor: under a second, for odd forests
constexpr double kNoise = 1e-12;              // of a sum that was added to and taken from

}  // namespace

ForestEditor::ForestEditor(const ForestLayout& layout, ForestHolds holds)
    : layout_(&layout),
      holds_(std::move(holds)),
      served_(served_by(layout, holds_)),
      needs_(layout, holds_) {
  const ForestPlan plan = plan_of(layout, holds_);
  cost_ = plan.cost;
  bytes_ = plan.bytes;
}

ForestEditor::Worth ForestEditor::worth(std::size_t rank) const {
  const auto& vertices = layout_->vertices;
  const ForestLayout::Vertex& v = vertices[rank];
  Worth worth{0, v.state_bytes};
  const std::int32_t own = holds_[rank];
  bool shared = false;  // with another state, from here up
  double near = 0;
  for (auto r = static_cast<std::int32_t>(rank); r >= 0;) {
    const auto at = static_cast<std::size_t>(r);
    ++steps_;
    if (at != rank && holds_[at] != 0) {
      near = vertices[at].depth;
      break;
    }
    shared = shared || needs_[at] > own;
    if (!shared) worth.bytes += vertices[at].edge_bytes;
    r = vertices[at].parent;
  }
  worth.saved = served_[rank] * layout_->cost.between(near, v.depth);
  return worth;
}

void ForestEditor::toggle(std::size_t rank) {
  const auto& vertices = layout_->vertices;
  const std::int32_t by = holds_[rank] != 0 ? -1 : 1;
  cost_ -= by * worth(rank).saved;
  bytes_ += by * vertices[rank].state_bytes + needs_.change(rank, by);
  holds_[rank] = by > 0 ? 1 : 0;
  for (std::int32_t r = vertices[rank].parent; r >= 0;) {
    const auto at = static_cast<std::size_t>(r);
    ++steps_;
    served_[at] -= by * served_[rank];
    if (served_[at] < kNoise * vertices[at].mass) served_[at] = 0;
    if (holds_[at] != 0) break;
    r = vertices[at].parent;
  }
}

// In one pass from the roots, where worth() would walk up from every node.
std::vector<ForestEditor::Offer> ForestEditor::offers_to_hold(double budget,
                                                              std::int32_t except) const {
  const auto& vertices = layout_->vertices;
  std::vector<double> near(vertices.size()), unkept(vertices.size());
  std::vector<Offer> offers;
  for (std::size_t r = 0; r < vertices.size(); ++r) {
    const ForestLayout::Vertex& v = vertices[r];
    const auto parent = static_cast<std::size_t>(std::max(v.parent, 0));
    const double above = v.parent < 0 ? 0 : near[parent];
    near[r] = holds_[r] != 0 ? v.depth : above;
    if (needs_[r] == 0) unkept[r] = v.edge_bytes + (v.parent < 0 ? 0 : unkept[parent]);
    const auto rank = static_cast<std::int32_t>(r);
    if (holds_[r] != 0 || !v.can_hold || rank == except) continue;
    const Worth worth{served_[r] * layout_->cost.between(above, v.depth),
                      v.state_bytes + unkept[r]};
    if (worth.saved > byte_worth_ * worth.bytes && bytes_ + worth.bytes <= budget)
      offers.push_back({worth.density(), rank});
  }
  return offers;
}

// Savings only fall as states are added, so an offer is looked at again when it comes up. What KV
// that has become shared makes cheaper is found by the next round.
void ForestEditor::fill(double budget, std::int32_t except) {
  const auto worse = [](const Offer& a, const Offer& b) {
    return a.density != b.density ? a.density < b.density : a.rank > b.rank;
  };
  for (bool added = true; added && steps_ < kMostSteps;) {
    added = false;
    std::priority_queue offers(worse, offers_to_hold(budget, except));
    while (!offers.empty() && steps_ < kMostSteps) {
      Offer offer = offers.top();
      offers.pop();
      const auto rank = static_cast<std::size_t>(offer.rank);
      const Worth now = worth(rank);
      if (!(now.saved > byte_worth_ * now.bytes) || bytes_ + now.bytes > budget) continue;
      offer.density = now.density();
      if (!offers.empty() && worse(offer, offers.top())) {
        offers.push(offer);
        continue;
      }
      toggle(rank);
      added = true;
    }
    added = drop_useless() || added;
  }
}

// What a state served may have been taken over by states below it.
bool ForestEditor::drop_useless() {
  bool dropped = false;
  for (std::size_t r = 0; r < holds_.size(); ++r) {
    const ForestLayout::Vertex& v = layout_->vertices[r];
    if (holds_[r] == 0 || v.pinned) continue;
    if (served_[r] > 0 && (v.reach > v.parent_reach || worth(r).saved > 0)) continue;
    toggle(r);
    dropped = true;
  }
  return dropped;
}

std::vector<ForestEditor::Offer> ForestEditor::offers_to_drop(std::int32_t except) const {
  std::vector<Offer> offers;
  for (std::size_t r = 0; r < holds_.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    if (holds_[r] == 0 || layout_->vertices[r].pinned || rank == except) continue;
    offers.push_back({worth(r).density(), rank});
  }
  return offers;
}

// A state that is dropped raises what others save; an offer that has risen is put back. One whose
// bytes have risen more than its saving came up too late at worst.
void ForestEditor::shed(double budget, std::int32_t except) {
  const auto better = [](const Offer& a, const Offer& b) {
    return a.density != b.density ? a.density > b.density : a.rank < b.rank;
  };
  std::priority_queue offers(better, offers_to_drop(except));
  while (bytes_ > budget && !offers.empty()) {
    Offer offer = offers.top();
    offers.pop();
    const auto rank = static_cast<std::size_t>(offer.rank);
    const double now = worth(rank).density();
    if (now > offer.density && steps_ < kMostSteps) {
      offer.density = now;
      offers.push(offer);
      continue;
    }
    toggle(rank);
  }
}

// The plan that follows from toggling one state and making the best of the rest.
bool ForestEditor::better_with(std::size_t toggled, double budget, ForestEditor& trial) const {
  const auto except = static_cast<std::int32_t>(toggled);
  trial = *this;
  trial.toggle(toggled);
  trial.shed(budget, except);
  trial.fill(budget, except);
  trial.fill(budget);
  const double now = cost_ + byte_worth_ * bytes_;
  return trial.bytes_ <= budget && trial.cost_ + byte_worth_ * trial.bytes_ < now * (1 - kNoise);
}

void ForestEditor::exchange(double budget) {
  ForestEditor trial = *this;
  for (bool improved = true; improved && steps_ < kMostSteps;) {
    improved = false;
    for (std::size_t r = 0; r < holds_.size() && steps_ < kMostSteps; ++r) {
      const ForestLayout::Vertex& v = layout_->vertices[r];
      if (!v.can_hold || v.pinned) continue;
      const bool better = better_with(r, budget, trial);
      steps_ = trial.steps_;
      if (!better) continue;
      *this = trial;
      improved = true;
    }
  }
}

}  // namespace cairn::engine
