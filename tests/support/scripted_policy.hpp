// SPDX-License-Identifier: Apache-2.0
// A policy made of two functions, for tests of whoever owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/placement/cache_policy.hpp"

namespace cairn::tests {

/// A claim that could be given up.
struct ValuedClaim {
  std::int32_t position = 0;
  engine::StateKind kind = engine::StateKind::planned;
  std::uint64_t last_used = 0;  // tick of the last hit, or of its claim
  std::uint64_t bytes = 0;      // the state and the KV only it needs
  std::int32_t gap = 0;         // tokens to the next claim above it on its path, or to the root
};

/// Places by a function; values by another (empty: least recently used). Of equals a pending claim
/// goes first, the least sure and deepest of these; of states the one made first.
class ScriptedPolicy final : public engine::CachePolicy {
 public:
  using Place = std::function<std::vector<engine::Placement>(const engine::RequestView&)>;
  using Value = std::function<double(const ValuedClaim&)>;
  explicit ScriptedPolicy(Place place = {}, Value value = {})
      : place_(std::move(place)), value_(std::move(value)) {}
  std::string name() const override { return "scripted"; }

  void learn_budget(std::uint64_t bytes) override { budget = bytes; }
  std::uint64_t budget = 0;  // as it was told
  void make_fit(std::uint64_t bytes) override { told_to_fit.push_back({bytes, tree().bytes()}); }
  struct Fit {
    std::uint64_t bytes, held;  // told, and of the claims then
  };
  std::vector<Fit> told_to_fit;

  void observe(const engine::RequestView& q) override {
    tick_ = q.tick;
    if (q.resume > 0) claims_[q.resume_node].last_used = tick_;
  }
  std::vector<engine::Placement> place(const engine::RequestView& q) override {
    std::vector<engine::Placement> places;
    if (place_) places = place_(q);
    engine::tidy(q, places);
    return places;
  }

  engine::PlanNode least(const Usable& usable) override {
    engine::PlanNode best = engine::kNoPlanNode;
    for (engine::PlanNode n = 0; n < claims_.size(); ++n) {
      if (!tree()[n].used || tree()[n].claim == engine::Claim::none || !usable(n)) continue;
      if (best == engine::kNoPlanNode || key(n) < key(best)) best = n;
    }
    return best;
  }

  void changed(const engine::TreeOp& op) override {
    if (op.type == engine::TreeOp::Type::clear) claims_.clear();
    if (op.type != engine::TreeOp::Type::claim) return;
    if (claims_.size() < tree().slots()) claims_.resize(tree().slots());
    claims_[op.node] = {tick_, ++made_};
  }

  ValuedClaim candidate(engine::PlanNode node) const {
    const auto& n = tree()[node];
    return {n.depth, n.kind, claims_[node].last_used, tree().exclusive_bytes(node),
            n.depth - tree()[tree().claim_above(node)].depth};
  }

 private:
  struct Claimed {
    std::uint64_t last_used = 0, made = 0;
  };
  std::tuple<double, bool, int, std::int64_t> key(engine::PlanNode node) const {
    const ValuedClaim c = candidate(node);
    const double value = value_ ? value_(c) : static_cast<double>(c.last_used);
    const auto made = static_cast<std::int64_t>(claims_[node].made);
    if (tree()[node].claim == engine::Claim::stored) return {value, true, 0, made};
    return {value, false, -engine::rank(c.kind), -made};
  }

  Place place_;
  Value value_;
  std::uint64_t tick_ = 0, made_ = 0;
  std::vector<Claimed> claims_;  // by node
};

}  // namespace cairn::tests
