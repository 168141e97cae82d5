// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/oracle.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

constexpr double kHorizon = 64;        // requests
constexpr std::size_t kWindow = 640;   // requests; exp(-10) is left of what lies beyond
constexpr std::size_t kInterior = 16;  // places of one prompt

}  // namespace

OraclePolicy::OraclePolicy(const Trace& trace) : visits_(trace.size()), children_(trace.size()) {
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const TraceRequest& r = trace[i];
    if (r.overlap == TraceRequest::kNotStated) {
      throw LoadError("policy oracle: expected a trace that states overlaps and parents (CSV)");
    }
    if (r.parent < 0 || r.overlap == 0) continue;
    visits_[i] = {r.parent, std::min(r.overlap, r.length - 1)};
    children_[static_cast<std::size_t>(r.parent)].push_back(i);
  }
}

double OraclePolicy::weight(std::size_t request) const {
  return std::exp(-static_cast<double>(request + 1 - ends_.size()) / kHorizon);
}

void OraclePolicy::observe(const RequestView& request) {
  check(ends_.size() < visits_.size(), "the oracle knows of no further request");
  ends_.push_back(request.end_node);
  counted_ = false;
}

// Wherever a request within the window will leave this prompt, the worthiest first.
std::vector<Placement> OraclePolicy::place(const RequestView& request) {
  std::vector<std::pair<double, std::int32_t>> wanted;
  for (const std::size_t child : children_[ends_.size() - 1]) {
    if (child >= ends_.size() + kWindow) break;
    const std::int32_t depth = visits_[child].depth;
    wanted.emplace_back(weight(child) * costs_.prefill.between(request.resume, depth), depth);
  }
  std::sort(wanted.rbegin(), wanted.rend());
  std::vector<Placement> out;
  out.push_back({request.length - 1, StateKind::prompt_end});
  if (request.overlap > request.resume) out.push_back({request.overlap, StateKind::branch});
  for (const auto& [worth, depth] : wanted) {
    if (worth <= costs_.write || out.size() >= kInterior) break;
    out.push_back({depth, StateKind::planned});
  }
  tidy(request, out);
  return out;
}

void OraclePolicy::changed(const TreeOp& /*op*/) { counted_ = false; }

void OraclePolicy::count() {
  served_.assign(tree().slots(), 0);
  const std::size_t end = std::min(visits_.size(), ends_.size() + kWindow);
  for (std::size_t j = ends_.size(); j < end; ++j) {
    const Visit& v = visits_[j];
    if (v.parent < 0 || static_cast<std::size_t>(v.parent) >= ends_.size()) continue;
    PlanNode n = ends_[static_cast<std::size_t>(v.parent)];
    while (n != kPlanRoot && (tree()[n].claim == Claim::none || tree()[n].depth > v.depth)) {
      n = tree()[n].parent;
    }
    served_[n] += weight(j);
  }
  counted_ = true;
}

double OraclePolicy::loss_per_byte(PlanNode node) const {
  const std::int32_t above = tree()[tree().claim_above(node)].depth;
  const double saved = costs_.prefill.between(above, tree()[node].depth) - costs_.restore;
  return served_[node] * std::max(saved, 0.0) / static_cast<double>(tree().added_bytes(node));
}

PlanNode OraclePolicy::least(const Usable& usable) {
  if (!counted_) count();
  PlanNode found = kNoPlanNode;
  double least = 0;
  for (PlanNode n = 1; n < tree().slots(); ++n) {
    if (!tree()[n].used || tree()[n].claim == Claim::none) continue;
    const double worth = loss_per_byte(n);
    if (found != kNoPlanNode && worth >= least) continue;
    if (!usable(n)) continue;
    found = n;
    least = worth;
  }
  return found;
}

}  // namespace cairn::engine
