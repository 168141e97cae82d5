// SPDX-License-Identifier: Apache-2.0
// Where to keep states and which to give up: one interface for every rule, live and simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/dp.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

/// Positions with a meaning that the server knows and a trace does not.
struct StructuralPoint {
  std::int32_t position = 0;  // tokens before it
  StateKind kind = StateKind::turn;
};

/// What a rule sees of one request, once the prompt's path is in the tree.
struct RequestView {
  std::uint64_t tick = 0;             // one per request
  std::int32_t length = 0;            // n: tokens of the prompt
  std::int32_t overlap = 0;           // t: tokens shared with the deepest remembered path
  std::int32_t resume = 0;            // c: the state that is used, 0 for none
  bool inside_edge = false;           // the overlap ended inside a segment that nobody had split
  bool spare_room = true;             // nothing has had to be evicted so far
  PlanNode end_node = kPlanRoot;      // depth n
  PlanNode overlap_node = kPlanRoot;  // depth t; the root when t is 0
  PlanNode resume_node = kPlanRoot;   // depth c; the root when c is 0
  std::span<const StructuralPoint> structure{};  // ascending positions
};

struct Placement {
  std::int32_t position = 0;  // resume < p < length
  StateKind kind = StateKind::planned;
};

/// One request's overlap, for the planner.
struct Observation {
  std::int32_t length = 0;
  std::int32_t overlap = 0;
  std::int32_t resume = 0;
  std::int32_t parent_length = 0;  // of the prompt that first went where the overlap ends, if known
};

/// What place() promises of its answer: strictly ascending, inside (resume, length), and of those
/// on one position the surest.
void tidy(const RequestView& request, std::vector<Placement>& places);

/// The costs that the rule weighs, in the unit of `prefill` (tokens or seconds).
struct PolicyCosts {
  CostModel prefill{};  // F
  double write = 0;     // to copy one state out
  double restore = 0;   // to copy one back
};

/// Tokens of prefill that copying one state out takes, about as measured: 1 on the CPU, 2 on a GPU.
inline constexpr double kWriteTokens = 2;

/// A plan that the planner actor publishes and the policy swaps in. Immutable.
struct Plan;
class DemandForest;

/// One request, as its owner (the prefix cache) tells it:
///
///   the path enters the tree -> observe -> place -> a pending claim for each place -> while the
///   bytes do not fit: least, release -> the survivors are copied out: pending becomes stored.
///
/// Owned by one thread (the prefix actor, the simulator). Deterministic.
class CachePolicy : public TreeListener {
 public:
  virtual std::string name() const = 0;

  /// Once, before anything else. The tree outlives the policy's last call and lists it as a
  /// listener.
  virtual void attach(const PlanTree& tree) { tree_ = &tree; }

  /// Statistics of one request, its hit included.
  virtual void observe(const RequestView& request) = 0;
  /// What the planner is to learn of it, after observe.
  virtual Observation seen(const RequestView& request) const {
    return {request.length, request.overlap, request.resume, 0};
  }
  /// Positions to copy out while this prompt is prefilled.
  virtual std::vector<Placement> place(const RequestView& request) = 0;

  /// False for claims that live work holds.
  using Usable = std::function<bool(PlanNode)>;
  /// The claim to give up first, stored or pending, among those that are usable; kNoPlanNode when
  /// none is. The caller releases it.
  virtual PlanNode least(const Usable& usable) = 0;

  /// Whether KV and states are kept at all.
  virtual bool keeps_anything() const { return true; }
  /// Whether the running state is handed over when an answer ends.
  virtual bool keeps_answer_end() const { return keeps_anything(); }
  /// Bytes that all claims together may take; 0: unknown.
  virtual void learn_budget(std::uint64_t /*bytes*/) {}
  /// What they may take just now, before least is asked: the budget, or what running work leaves of
  /// it.
  virtual void make_fit(std::uint64_t /*bytes*/) {}
  /// Measured costs, whenever they change.
  virtual void learn_costs(const PolicyCosts& /*costs*/) {}
  /// The statistics that a planner's replica can go on with; null: the rule has none.
  virtual const DemandForest* demand_forest() const { return nullptr; }
  /// What was learned, to be kept across restarts, and back before the first request; empty and
  /// false for rules that learn nothing.
  virtual std::vector<std::byte> save() const { return {}; }
  virtual bool load(std::span<const std::byte> /*bytes*/) { return false; }
  /// What a claim is predicted to save a tick and byte, and what a byte must; 0 where the rule does
  /// not predict.
  virtual double loss_per_byte(PlanNode /*node*/) const { return 0; }
  virtual double price() const { return 0; }
  /// A newer plan from the planner; ignored by rules without one.
  virtual void adopt(const std::shared_ptr<const Plan>& /*plan*/) {}

  void changing(const TreeOp& /*op*/) override {}
  void changed(const TreeOp& /*op*/) override {}

 protected:
  const PlanTree& tree() const { return *tree_; }

 private:
  const PlanTree* tree_ = nullptr;
};

}  // namespace cairn::engine
