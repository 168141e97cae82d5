// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/rules.hpp"

#include <utility>

namespace cairn::engine {
namespace {

constexpr std::size_t kMaxPinned = 4;

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

}  // namespace

void RulePolicy::touch(PlanNode node) { order_.use(node, tree()[node].depth, tick_); }

void RulePolicy::observe(const RequestView& request) {
  tick_ = request.tick;
  if (touch_ == Touch::resumed) {
    if (request.resume > 0) touch(request.resume_node);
    return;
  }
  for (PlanNode n = request.overlap_node; n != kPlanRoot; n = tree()[n].parent) {
    if (tree()[n].claim == Claim::stored) touch(n);
  }
}

std::vector<Placement> RulePolicy::place(const RequestView& request) {
  std::vector<Placement> out;
  out.push_back({request.length - 1, StateKind::prompt_end});
  if (branch_ && request.overlap > request.resume && request.overlap < request.length - 1) {
    out.push_back({request.overlap, StateKind::branch});
  }
  add_structure(request.structure, out);
  for (const std::int32_t p : interior(request)) out.push_back({p, StateKind::planned});
  tidy(request, out);
  return out;
}

void RulePolicy::changed(const TreeOp& op) {
  if (op.type == TreeOp::Type::claim && op.before == Claim::none) touch(op.node);
  if (op.type == TreeOp::Type::clear) order_.clear();
}

void RulePolicy::changing(const TreeOp& op) {
  if (op.type == TreeOp::Type::release) order_.forget(op.node);
}

void PlannedPolicy::changed(const TreeOp& op) {
  RulePolicy::changed(op);
  lengths_.changed(op, op.depth);
}

Observation PlannedPolicy::seen(const RequestView& request) const {
  Observation seen = RulePolicy::seen(request);
  if (request.overlap > 0) seen.parent_length = lengths_[request.overlap_node];
  return seen;
}

std::vector<std::int32_t> PlannedPolicy::interior(const RequestView& request) const {
  return plan_ ? positions_for(*plan_, request.length) : std::vector<std::int32_t>{};
}

}  // namespace cairn::engine
