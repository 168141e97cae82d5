// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/compare.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.hpp"
#include "engine/placement/forest_solver.hpp"
#include "engine/placement/plan_tree.hpp"
#include "engine/placement/spacings.hpp"

namespace cairn::paper {

using engine::DemandPoint;

namespace {

std::int32_t parent_length(const Workload& workload, const engine::TraceRequest& r) {
  return workload.requests[static_cast<std::size_t>(r.parent)].length;
}

bool leaves_early(const Workload& workload, const engine::TraceRequest& r) {
  return r.parent >= 0 && r.overlap > 0 && r.overlap < parent_length(workload, r) - 1;
}

}  // namespace

std::vector<Sample> partial_overlaps(const Workload& workload) {
  std::vector<Sample> out;
  for (const auto& r : workload.requests) {
    if (leaves_early(workload, r)) out.push_back({r.overlap, parent_length(workload, r)});
  }
  return out;
}

std::int64_t mean_length(std::span<const Sample> samples) {
  std::int64_t sum = 0;
  for (const Sample& s : samples) sum += s.length;
  return std::max<std::int64_t>(2, samples.empty() ? 0 : sum / std::ssize(samples));
}

const char* to_string(Scale scale) { return scale == Scale::absolute ? "absolute" : "fraction"; }

Pooled pool(std::span<const Sample> samples, Scale scale, std::span<const Sample> like) {
  Pooled out;
  if (scale == Scale::fraction) {
    out.length = mean_length(like);
  } else {
    for (const Sample& s : like) out.length = std::max<std::int64_t>(out.length, s.length);
  }
  for (const Sample& s : samples) {
    DemandPoint point{s.depth, 1};
    if (scale == Scale::fraction) {
      point.depth = std::max<std::int64_t>(1, s.depth * out.length / s.length);
      point.weight = static_cast<double>(s.depth) / static_cast<double>(point.depth);
    }
    out.total += point.weight * static_cast<double>(point.depth);
    out.demand.push_back(point);
  }
  return out;
}

const char* to_string(Rule rule) {
  switch (rule) {
    case Rule::none:
      return "none";
    case Rule::kv_only:
      return "kv_only";
    case Rule::balanced:
      return "balanced";
    case Rule::block:
      return "block";
    case Rule::log:
      return "log";
    case Rule::log_end:
      return "log_end";
    case Rule::sqrt_spacing:
      return "sqrt_spacing";
    case Rule::dp:
      return "dp";
  }
  return "none";
}

std::vector<std::int64_t> positions(Rule rule, int states, const Pooled& fit) {
  using engine::Spacing;
  switch (rule) {
    case Rule::none:
    case Rule::kv_only:
      return {};
    case Rule::balanced:
      return engine::spaced_positions(Spacing::balanced, fit.length, states);
    case Rule::block:
      return engine::spaced_positions(Spacing::block, fit.length, states);
    case Rule::log:
      return engine::spaced_positions(Spacing::log, fit.length, states);
    case Rule::log_end:
      return engine::spaced_positions(Spacing::log_end, fit.length, states);
    case Rule::sqrt_spacing: {
      const auto step =
          static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(fit.length))));
      std::vector<std::int64_t> out;
      const std::int64_t last = fit.length / step;
      for (std::int64_t i = std::max<std::int64_t>(1, last - states + 1); i <= last; ++i) {
        out.push_back(i * step);
      }
      return out;
    }
    case Rule::dp:
      return engine::place_checkpoints(fit.demand, states).positions;
  }
  return {};
}

double share(Rule rule, int states, const Pooled& fit, const Pooled& on) {
  if (on.total == 0) return 0;
  return engine::placement_cost(on.demand, positions(rule, states, fit)) / on.total;
}

int dp_reaches_block(int block_states, const Pooled& fit, const Pooled& on) {
  const double target = share(Rule::block, block_states, fit, on);
  std::vector<int> budgets;
  for (int m = 1; m <= block_states; ++m) budgets.push_back(m);
  const auto plans = engine::place_checkpoints_each(fit.demand, budgets);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (engine::placement_cost(on.demand, plans[i].positions) / on.total <= target) {
      return budgets[i];
    }
  }
  return block_states;
}

namespace {

/// The prompts of a workload as one tree, and where requests leave earlier ones.
class PromptForest {
 public:
  explicit PromptForest(const Workload& workload) : tree_({}) {
    std::vector<std::pair<std::int32_t, std::int32_t>> left;  // parent's row, depth
    for (const auto& r : workload.requests) {
      engine::PlanNode at = engine::kPlanRoot;
      if (r.parent >= 0 && r.overlap > 0) {
        at = node_at(ends_[static_cast<std::size_t>(r.parent)], r.overlap);
        if (leaves_early(workload, r)) left.emplace_back(r.parent, r.overlap);
      }
      ends_.push_back(r.length > tree_[at].depth ? tree_.add_leaf(at, r.length) : at);
    }
    std::vector<double> rates(tree_.slots(), 0);
    for (const auto& [row, depth] : left) {
      rates[node_at(ends_[static_cast<std::size_t>(row)], depth)] += 1;
      total_ += depth;
    }
    list_nodes(rates);
  }

  const std::vector<engine::DemandNode>& nodes() const { return nodes_; }
  double total() const { return total_; }

 private:
  engine::PlanNode node_at(engine::PlanNode n, std::int32_t depth) {
    while (n != engine::kPlanRoot && tree_[tree_[n].parent].depth >= depth) n = tree_[n].parent;
    return n == engine::kPlanRoot || tree_[n].depth == depth ? n : tree_.split(n, depth);
  }

  void list_nodes(const std::vector<double>& rates) {
    std::vector<engine::PlanNode> order;
    tree_.top_down(order);
    std::vector<std::int32_t> index(tree_.slots(), -1);
    for (const engine::PlanNode n : order) {
      if (n == engine::kPlanRoot) continue;
      index[n] = static_cast<std::int32_t>(nodes_.size());
      engine::DemandNode& node = nodes_.emplace_back();
      node.parent = index[tree_[n].parent];
      node.depth = tree_[n].depth;
      node.demand = rates[n];
      node.state_bytes = 1;
    }
  }

  engine::PlanTree tree_;
  std::vector<engine::PlanNode> ends_;  // by request
  std::vector<engine::DemandNode> nodes_;
  double total_ = 0;
};

}  // namespace

std::int64_t retained_prompts(const Workload& workload) {
  std::set<std::int32_t> retained;
  for (const auto& r : workload.requests) {
    if (leaves_early(workload, r)) retained.insert(r.parent);
  }
  return std::ssize(retained);
}

std::int64_t groups(const Workload& workload) {
  return std::count_if(workload.requests.begin(), workload.requests.end(),
                       [](const auto& r) { return 2 * r.overlap < r.length; });
}

std::vector<double> forest_shares(const Workload& workload, std::span<const std::int64_t> states) {
  const PromptForest forest(workload);
  auto solver = engine::ForestSolver::make(forest.nodes(), {});
  check(solver.ok(), "the prompts are no forest");
  std::vector<double> out;
  for (const std::int64_t count : states) {
    const auto plan = solver->solve_within(static_cast<double>(count));
    check(plan.ok(), "a budget without pins cannot fail");
    out.push_back(forest.total() == 0 ? 0 : plan->cost / forest.total());
  }
  return out;
}

}  // namespace cairn::paper
