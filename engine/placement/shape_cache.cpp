// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/shape_cache.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace cairn::engine {

ShapeCache::ShapeCache(CachePolicy& policy, ByteCosts costs, std::uint64_t budget)
    : policy_(policy), tree_(costs), budget_(budget) {
  tree_.listen(&policy_);
  policy_.attach(tree_);
  policy_.learn_budget(budget_);
}

// The node at `depth` on the path to `below`, made by a split if there is none.
PlanNode ShapeCache::node_at(PlanNode below, std::int32_t depth) {
  PlanNode n = below;
  while (n != kPlanRoot && tree_[tree_[n].parent].depth >= depth) n = tree_[n].parent;
  if (n == kPlanRoot || tree_[n].depth == depth) return n;
  const PlanNode made = tree_.split(n, depth);
  if (is_end_.size() < tree_.slots()) is_end_.resize(tree_.slots());
  is_end_[made] = false;
  return made;
}

void ShapeCache::drop(PlanNode node) {
  spare_room_ = false;
  tree_.release(node);
  const PlanTree::Node& n = tree_[node];
  if (is_end_[node] || n.first_child == kNoPlanNode) return;
  if (tree_[n.first_child].next == kNoPlanNode) tree_.merge(node);
}

// The prompt's path and where its overlap ends.
PlanNode ShapeCache::enter(PlanNode parent, RequestView& view) {
  const std::int64_t before = tree_.size();
  view.overlap_node = view.overlap > 0 ? node_at(parent, view.overlap) : kPlanRoot;
  view.inside_edge = tree_.size() != before;
  view.end_node = view.overlap_node;
  if (view.length > view.overlap) view.end_node = tree_.add_leaf(view.overlap_node, view.length);
  if (is_end_.size() < tree_.slots()) is_end_.resize(tree_.slots());
  is_end_[view.end_node] = true;
  return view.end_node;
}

// A state that does not fit beside its own KV is not tried for.
std::vector<PlanNode> ShapeCache::claim_places(const RequestView& view) {
  std::vector<PlanNode> fresh;
  for (const Placement& p : policy_.place(view)) {
    if (tree_.bytes_alone(p.position) > budget_) continue;
    const PlanNode node = node_at(view.end_node, p.position);
    if (tree_[node].claim != Claim::none) continue;
    tree_.claim(node, Claim::pending, p.kind);
    fresh.push_back(node);
  }
  return fresh;
}

ShapeCache::Served ShapeCache::request(PlanNode parent, std::int32_t overlap, std::int32_t length) {
  RequestView view;
  view.tick = ++tick_;
  view.length = length;
  view.overlap = std::min(overlap, length);
  view.spare_room = spare_room_;
  Served out;
  out.end = enter(parent, view);

  PlanNode resume = view.overlap_node;
  while (resume != kPlanRoot &&
         (tree_[resume].claim != Claim::stored || tree_[resume].depth >= length)) {
    resume = tree_[resume].parent;
  }
  view.resume_node = resume;
  view.resume = tree_[resume].depth;
  out.reusable = std::min(view.overlap, length - 1);
  out.resume = view.resume;

  policy_.observe(view);
  std::vector<PlanNode> fresh = claim_places(view);
  while (tree_.bytes() > budget_) {
    const PlanNode victim = policy_.least([](PlanNode) { return true; });
    check(victim != kNoPlanNode, "the policy names no victim");
    ++(std::erase(fresh, victim) > 0 ? out.refused : out.evicted);
    drop(victim);
  }
  for (const PlanNode node : fresh) tree_.claim(node, Claim::stored, tree_[node].kind);
  out.written = static_cast<std::int32_t>(fresh.size());
  out.seen = policy_.seen(view);
  return out;
}

}  // namespace cairn::engine
