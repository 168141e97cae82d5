// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "engine/placement/planner.hpp"
#include "engine/placement/policy.hpp"
#include "model/net/backend.hpp"

namespace cairn::engine {
namespace {

constexpr std::size_t kMaxPinned = 4;
// A planned state closer than this behind another saves less than it costs to keep.
constexpr std::int32_t kPlannedGap = model::kBlockTokens;

void add_structure(std::span<const StructuralPoint> structure, std::vector<Placement>& out) {
  std::vector<std::int32_t> turns;
  std::vector<std::int32_t> pinned;
  for (const StructuralPoint& p : structure) {
    if (p.position > 0) (p.kind == StateKind::pinned ? pinned : turns).push_back(p.position);
  }
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i == 0 || i + 2 >= turns.size()) out.push_back({turns[i], StateKind::turn});
  }
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    if (i + kMaxPinned >= pinned.size()) out.push_back({pinned[i], StateKind::pinned});
  }
}

class NonePolicy final : public Policy {
 public:
  std::string name() const override { return "none"; }
  std::vector<Placement> place(const PlacementQuery&) override { return {}; }
  bool keeps_anything() const override { return false; }
  bool keeps_answer_end() const override { return false; }
};

// What the prompt's ends, branches and structure ask for; rules for its interior derive from it.
class EndsPolicy : public Policy {
 public:
  EndsPolicy(std::string_view name, bool branch) : name_(name), branch_(branch) {}
  std::string name() const override { return name_; }

  std::vector<Placement> place(const PlacementQuery& query) override {
    std::vector<Placement> out;
    out.push_back({query.length - 1, StateKind::prompt_end});
    if (branch_ && query.overlap > query.resume && query.overlap < query.length - 1) {
      out.push_back({query.overlap, StateKind::branch});
    }
    add_structure(query.structure, out);
    add_interior(query, out);
    tidy(query, out);
    return out;
  }

 protected:
  virtual void add_interior(const PlacementQuery&, std::vector<Placement>&) {}

 private:
  std::string name_;
  bool branch_;
};

// The published even spacing, taken literally: a baseline.
class BalancedPolicy final : public EndsPolicy {
 public:
  BalancedPolicy(std::string_view name, bool branch, int checkpoints)
      : EndsPolicy(name, branch), checkpoints_(checkpoints) {}

 protected:
  void add_interior(const PlacementQuery& query, std::vector<Placement>& out) override {
    for (const std::int32_t p : prior_positions(query.length, checkpoints_)) {
      out.push_back({p, StateKind::planned});
    }
  }

 private:
  int checkpoints_;
};

class DpPolicy final : public EndsPolicy {
 public:
  DpPolicy(std::string_view name, bool branch, int checkpoints)
      : EndsPolicy(name, branch), checkpoints_(checkpoints) {}

  std::vector<Placement> place(const PlacementQuery& query) override {
    std::vector<Placement> out = EndsPolicy::place(query);
    std::int32_t above = query.resume;  // the state before this one
    std::erase_if(out, [&](const Placement& p) {
      if (p.kind == StateKind::planned && p.position - above < kPlannedGap) return true;
      above = p.position;
      return false;
    });
    return out;
  }

  void adopt(std::shared_ptr<const Plan> plan) override { plan_ = std::move(plan); }

 protected:
  // Twice the positions while they cost nobody his place: a first fork then finds a state near it.
  void add_interior(const PlacementQuery& query, std::vector<Placement>& out) override {
    const Plan::Rung* rung = plan_ ? rung_for(*plan_, query.length) : nullptr;
    const auto add = [&](const std::vector<std::int32_t>& positions) {
      for (const std::int32_t p : positions) out.push_back({p, StateKind::planned});
    };
    if (rung) {
      add(query.spare_room ? rung->spare_positions : rung->positions);
    } else {
      add(prior_positions(query.length, query.spare_room ? 2 * checkpoints_ : checkpoints_));
    }
  }

 private:
  int checkpoints_;
  std::shared_ptr<const Plan> plan_;
};

class LruPolicy final : public CachePolicy {
 public:
  explicit LruPolicy(std::unique_ptr<Policy> placement) : placement_(std::move(placement)) {}
  std::string name() const override { return placement_->name(); }
  bool keeps_anything() const override { return placement_->keeps_anything(); }
  bool keeps_answer_end() const override { return placement_->keeps_answer_end(); }
  void adopt(std::shared_ptr<const Plan> plan) override { placement_->adopt(std::move(plan)); }

  void observe(const RequestView& q) override {
    if (q.resume > 0) use(q.resume_node);
  }
  std::vector<Placement> place(const RequestView& q) override {
    return placement_->place({.length = q.length,
                              .overlap = q.overlap,
                              .resume = q.resume,
                              .inside_edge = q.inside_edge,
                              .spare_room = q.spare_room,
                              .structure = q.structure});
  }
  PlanNode least(const Usable& usable) override {
    for (const auto& [key, node] : order_) {
      if (usable(node)) return node;
    }
    return kNoPlanNode;
  }
  void changed(const TreeOp& op) override {
    if (op.type == TreeOp::Type::claim) use(op.node);
    if (op.type == TreeOp::Type::clear) {
      order_.clear();
      keys_.clear();
    }
  }
  void changing(const TreeOp& op) override {
    if (op.type == TreeOp::Type::release) forget(op.node);
  }

 private:
  void use(PlanNode node) {
    forget(node);
    if (keys_.size() <= node) keys_.resize(tree().slots());
    keys_[node] = ++uses_;
    order_.emplace(uses_, node);
  }
  void forget(PlanNode node) {
    if (node < keys_.size() && keys_[node] > 0) order_.erase(std::exchange(keys_[node], 0));
  }

  std::unique_ptr<Policy> placement_;
  std::uint64_t uses_ = 0;
  std::map<std::uint64_t, PlanNode> order_;
  std::vector<std::uint64_t> keys_;  // by node
};

Error unknown_policy(std::string_view spelling) {
  return {ErrorCode::bad_request,
          "unknown policy '" + std::string(spelling.substr(0, 64)) +
              "': expected none, last, branch, balanced:M, balanced:M+branch, dp:M or dp:M+branch "
              "with M from 1 to " +
              std::to_string(kMaxCheckpoints),
          "policy"};
}

bool drop_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

const char* to_string(StateKind kind) {
  switch (kind) {
    case StateKind::branch:
      return "branch";
    case StateKind::prompt_end:
      return "prompt_end";
    case StateKind::turn:
      return "turn";
    case StateKind::answer_end:
      return "answer_end";
    case StateKind::planned:
      return "planned";
    case StateKind::pinned:
      return "pinned";
  }
  return "planned";
}

int rank(StateKind kind) {
  constexpr StateKind kSurestFirst[kStateKinds] = {StateKind::pinned,     StateKind::branch,
                                                   StateKind::prompt_end, StateKind::turn,
                                                   StateKind::answer_end, StateKind::planned};
  return static_cast<int>(std::find(kSurestFirst, kSurestFirst + kStateKinds, kind) - kSurestFirst);
}

void tidy(const PlacementQuery& query, std::vector<Placement>& places) {
  RequestView view;
  view.length = query.length;
  view.resume = query.resume;
  tidy(view, places);
}

// Weak: another file is to define it.
__attribute__((weak)) void tidy(const RequestView& query, std::vector<Placement>& places) {
  std::erase_if(places, [&](const Placement& p) {
    return p.position <= query.resume || p.position >= query.length;
  });
  std::sort(places.begin(), places.end(), [](const Placement& x, const Placement& y) {
    return x.position != y.position ? x.position < y.position : rank(x.kind) < rank(y.kind);
  });
  const auto same = [](const Placement& x, const Placement& y) { return x.position == y.position; };
  places.erase(std::unique(places.begin(), places.end(), same), places.end());
}

double Policy::value(const Candidate& candidate) const {
  return static_cast<double>(candidate.last_used);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): rules with a plan keep it
void Policy::adopt(std::shared_ptr<const Plan>) {}

Result<PolicySpelling> parse_policy(std::string_view spelling) {
  using Interior = PolicySpelling::Interior;
  if (spelling == "none") return PolicySpelling{.keeps_anything = false};
  if (spelling == "last") return PolicySpelling{};
  if (spelling == "branch") return PolicySpelling{.branch = true};
  PolicySpelling parsed;
  std::string_view rest = spelling;
  if (drop_prefix(rest, "dp:")) {
    parsed.interior = Interior::dp;
  } else if (drop_prefix(rest, "balanced:")) {
    parsed.interior = Interior::balanced;
  } else {
    return unknown_policy(spelling);
  }
  const char* end = rest.data() + rest.size();
  const auto [at, error] = std::from_chars(rest.data(), end, parsed.checkpoints);
  const std::string_view suffix(at, static_cast<std::size_t>(end - at));
  parsed.branch = suffix == "+branch";
  const bool in_range = parsed.checkpoints >= 1 && parsed.checkpoints <= kMaxCheckpoints;
  if (error != std::errc{} || !in_range || !(suffix.empty() || parsed.branch)) {
    return unknown_policy(spelling);
  }
  return parsed;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view spelling) {
  using Interior = PolicySpelling::Interior;
  const auto parsed = parse_policy(spelling);
  if (!parsed) return parsed.error();
  std::unique_ptr<Policy> policy;
  if (!parsed->keeps_anything) {
    policy = std::make_unique<NonePolicy>();
  } else if (parsed->interior == Interior::dp) {
    policy = std::make_unique<DpPolicy>(spelling, parsed->branch, parsed->checkpoints);
  } else if (parsed->interior == Interior::balanced) {
    policy = std::make_unique<BalancedPolicy>(spelling, parsed->branch, parsed->checkpoints);
  } else {
    policy = std::make_unique<EndsPolicy>(spelling, parsed->branch);
  }
  return policy;
}

Result<std::unique_ptr<CachePolicy>> make_lru_policy(std::string_view spelling) {
  auto placement = make_policy(spelling);
  if (!placement.ok()) return placement.error();
  return std::unique_ptr<CachePolicy>(std::make_unique<LruPolicy>(std::move(placement).take()));
}

}  // namespace cairn::engine
