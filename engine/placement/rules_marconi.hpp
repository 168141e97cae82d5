// SPDX-License-Identifier: Apache-2.0
// `marconi`: branch and end states, given up by recency and by the prefill that a byte saves
// (after "Marconi: Prefix Caching for the Era of Hybrid LLMs", arXiv 2411.19379).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/placement/path_notes.hpp"
#include "engine/placement/rules.hpp"

namespace cairn::engine {

/// A claim's score is recency + alpha * efficiency, each scaled to 0..1 over the candidates;
/// efficiency = F saved over the claim above, per byte that only this claim holds. Candidates are
/// claims with at most one claim next below: a fork goes after its branches. A place that very many
/// prompts have left by ways of their own counts as a fork whatever is kept below. Only forks:
/// least recently used.
///
/// least() is exact: it goes up both orders at once, by last use and by efficiency, until nothing
/// further up either can score less. A change of the tree looks again at the claims it concerns.
class MarconiPolicy : public RulePolicy {
 public:
  MarconiPolicy(std::string name, double alpha)
      : RulePolicy(std::move(name), /*branch=*/true), alpha_(alpha) {}

  PlanNode least(const Usable& usable) override;
  void learn_costs(const PolicyCosts& costs) override;
  void changed(const TreeOp& op) override;
  void changing(const TreeOp& op) override;

  double alpha() const { return alpha_; }

 protected:
  void set_alpha(double alpha) { alpha_ = alpha; }
  const PolicyCosts& costs() const { return costs_; }

 private:
  struct Entry {
    double efficiency = 0;
    PlanNode node = kPlanRoot;
    bool operator<(const Entry& other) const {
      return efficiency != other.efficiency ? efficiency < other.efficiency : node < other.node;
    }
  };
  struct Known {
    double efficiency = 0;
    bool candidate = false;
    bool stale = false;
  };

  bool is_fork(PlanNode node) const;
  double efficiency(PlanNode node) const;
  void mark(PlanNode node);
  void mark_above(PlanNode node);
  void mark_below(PlanNode node, bool through_claims);
  void mark_around(PlanNode node);
  void drop(PlanNode node);
  void refresh();

  double alpha_;
  PolicyCosts costs_;
  std::set<Entry> by_efficiency_;  // candidates
  std::vector<Known> known_;       // by node
  std::vector<PlanNode> stale_;    // claims to look at again; some are claims no longer
};

/// Starts with alpha 0 and finds it by trial: from the first eviction on, the requests up to it and
/// a few times as many after it are replayed under several values side by side, two of them beside
/// each request; the value that has recomputed least at the end stays.
class TunedMarconiPolicy final : public MarconiPolicy {
 public:
  explicit TunedMarconiPolicy(std::string name);
  ~TunedMarconiPolicy() override;

  void observe(const RequestView& request) override;
  PlanNode least(const Usable& usable) override;
  void learn_budget(std::uint64_t bytes) override { budget_ = bytes; }
  void changed(const TreeOp& op) override;

  bool tuned() const { return done_; }

 private:
  struct Row {
    std::int32_t length = 0, overlap = 0;
    std::int32_t parent = -1;  // an earlier row
  };
  struct Trial;  // of one value, as far as it has come
  void note(const RequestView& request);
  void start_trials();
  bool go_on();  // every trial has replayed all rows there are
  void decide();

  bool done_ = false;
  std::vector<Row> rows_;
  std::int64_t forgotten_ = 0;       // rows before the first one
  PathNotes<std::int64_t> first_;    // row, counted from the very first
  std::uint64_t budget_ = 0;         // bytes; 0: unknown
  std::uint64_t held_ = 0;           // bytes: the most there ever were
  std::optional<std::size_t> full_;  // rows at the first eviction
  std::vector<std::unique_ptr<Trial>> trials_;
};

}  // namespace cairn::engine
