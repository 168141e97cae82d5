// SPDX-License-Identifier: Apache-2.0
#include "tests/support/shape_replay.hpp"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace cairn::testing {

using engine::Claim;
using engine::kNoPlanNode;
using engine::kPlanRoot;
using engine::PlanNode;

namespace {

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) {
    std::erase(cell, '\r');
    out.push_back(cell);
  }
  return out;
}

std::size_t column(const std::vector<std::string>& header, const std::string& name) {
  const auto at = std::find(header.begin(), header.end(), name);
  if (at == header.end()) throw std::runtime_error("no column " + name);
  return static_cast<std::size_t>(at - header.begin());
}

}  // namespace

std::vector<TraceRow> read_trace_csv(const std::string& path) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::string text;
  char buffer[1 << 16];
  for (int n = 0; (n = gzread(file.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  const auto header = cells(line);
  const std::size_t length = column(header, "prompt_tokens");
  const std::size_t overlap = column(header, "overlap_tokens");
  const std::size_t parent = column(header, "parent");
  std::vector<TraceRow> rows;
  while (std::getline(in, line)) {
    const auto c = cells(line);
    rows.push_back({std::stoi(c.at(length)), std::stoi(c.at(overlap)), std::stoi(c.at(parent))});
  }
  return rows;
}

ShapeReplay::ShapeReplay(engine::CachePolicy& policy, engine::ByteCosts costs, std::uint64_t budget)
    : policy_(policy), tree_(costs), budget_(budget) {
  tree_.listen(&policy_);
  policy_.attach(tree_);
}

// The node at `depth` on the path to `below`, made by a split if there is none.
PlanNode ShapeReplay::node_at(PlanNode below, std::int32_t depth) {
  PlanNode n = below;
  while (n != kPlanRoot && tree_[tree_[n].parent].depth >= depth) n = tree_[n].parent;
  if (n == kPlanRoot || tree_[n].depth == depth) return n;
  const PlanNode made = tree_.split(n, depth);
  if (is_end_.size() < tree_.slots()) is_end_.resize(tree_.slots());
  is_end_[made] = false;
  return made;
}

void ShapeReplay::merge_if_idle(PlanNode node) {
  const auto& n = tree_[node];
  if (node == kPlanRoot || n.claim != Claim::none || is_end_[node]) return;
  if (n.first_child != kNoPlanNode && tree_[n.first_child].next == kNoPlanNode) tree_.merge(node);
}

void ShapeReplay::drop(PlanNode node) {
  tree_[node].claim == Claim::pending ? ++result_.refused : ++result_.evicted;
  tree_.release(node);
  merge_if_idle(node);
}

void ShapeReplay::request(const TraceRow& row) {
  engine::RequestView view;
  view.tick = ++tick_;
  view.length = row.length;
  view.overlap = row.parent < 0 ? 0 : std::min(row.overlap, row.length);
  view.spare_room = result_.evicted + result_.refused == 0;

  const std::size_t before = tree_.slots();
  const std::int64_t size_before = tree_.size();
  view.overlap_node = view.overlap > 0
                          ? node_at(ends_[static_cast<std::size_t>(row.parent)], view.overlap)
                          : kPlanRoot;
  view.inside_edge = tree_.size() != size_before;
  view.end_node = view.overlap_node;
  if (view.length > view.overlap) view.end_node = tree_.add_leaf(view.overlap_node, view.length);
  if (is_end_.size() < tree_.slots()) is_end_.resize(std::max(tree_.slots(), before));
  is_end_[view.end_node] = true;
  ends_.push_back(view.end_node);

  PlanNode resume = view.overlap_node;
  while (resume != kPlanRoot &&
         (tree_[resume].claim != Claim::stored || tree_[resume].depth >= view.length)) {
    resume = tree_[resume].parent;
  }
  view.resume_node = resume;
  view.resume = tree_[resume].depth;
  const std::int32_t reusable = std::min(view.overlap, view.length - 1);
  result_.reusable += reusable;
  result_.recomputed += reusable - view.resume;

  policy_.observe(view);
  std::vector<PlanNode> fresh;
  for (const engine::Placement& p : policy_.place(view)) {
    const PlanNode node = node_at(view.end_node, p.position);
    if (tree_[node].claim != Claim::none) continue;
    tree_.claim(node, Claim::pending, p.kind);
    fresh.push_back(node);
  }
  while (tree_.bytes() > budget_) {
    const PlanNode victim = policy_.least([](PlanNode) { return true; });
    if (victim == kNoPlanNode) throw std::logic_error("the policy names no victim");
    std::erase(fresh, victim);
    drop(victim);
  }
  for (const PlanNode node : fresh) {
    tree_.claim(node, Claim::stored, tree_[node].kind);
    ++result_.states_written;
  }
  result_.bytes = tree_.bytes();
}

ReplayResult replay(const std::vector<TraceRow>& rows, engine::CachePolicy& policy,
                    std::uint64_t budget, engine::ByteCosts costs) {
  ShapeReplay run(policy, costs, budget);
  for (const TraceRow& row : rows) run.request(row);
  return run.result();
}

}  // namespace cairn::testing
