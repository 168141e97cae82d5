// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_tree.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "base/check.hpp"

using namespace cairn::engine;

namespace {

struct Log final : TreeListener {
  std::vector<TreeOp> ops;
  void changing(const TreeOp&) override {}
  void changed(const TreeOp& op) override { ops.push_back(op); }
};

std::vector<PlanNode> nodes_of(const PlanTree& tree) {
  std::vector<PlanNode> all;
  tree.top_down(all);
  all.erase(all.begin());
  return all;
}

// One random change that is allowed; nothing when the one drawn is not.
void change(PlanTree& tree, std::mt19937& random) {
  const auto all = nodes_of(tree);
  const auto pick = [&] { return all.empty() ? kPlanRoot : all[random() % all.size()]; };
  const PlanNode n = pick();
  const PlanTree::Node node = tree[n];
  switch (random() % 6) {
    case 0:
    case 1:
      tree.add_leaf(n, node.depth + 1 + static_cast<std::int32_t>(random() % 40));
      break;
    case 2:
      if (n == kPlanRoot) break;
      if (node.depth - tree[node.parent].depth > 1) tree.split(n, tree[node.parent].depth + 1);
      break;
    case 3:
      if (n == kPlanRoot) break;
      if (node.claim == Claim::none) {
        tree.claim(n, random() % 2 == 0 ? Claim::pending : Claim::stored, StateKind::branch);
      } else if (node.claim == Claim::pending) {
        tree.claim(n, Claim::stored, node.kind);
      }
      break;
    case 4:
      if (node.claim != Claim::none) tree.release(n);
      break;
    default:
      if (n == kPlanRoot || node.claim != Claim::none) break;
      if (node.first_child == kNoPlanNode) {
        tree.remove(n);
      } else if (tree[node.first_child].next == kNoPlanNode) {
        tree.merge(n);
      }
  }
}

// Bytes counted from nothing: states, their tails, and edges on the way to one.
std::uint64_t bytes_by_hand(const PlanTree& tree) {
  std::set<PlanNode> edges;
  std::int64_t blocks = 0;
  std::uint64_t bytes = 0;
  const std::int32_t block = tree.costs().kv_block;
  for (const PlanNode n : nodes_of(tree)) {
    if (tree[n].claim == Claim::none) continue;
    bytes += tree.costs().state_bytes;
    blocks += tree[n].depth % block != 0 ? 1 : 0;
    for (PlanNode e = n; e != kPlanRoot; e = tree[e].parent) edges.insert(e);
  }
  for (const PlanNode e : edges)
    blocks += tree[e].depth / block - tree[tree[e].parent].depth / block;
  return bytes + static_cast<std::uint64_t>(blocks * block) * tree.costs().kv_bytes_per_token;
}

}  // namespace

TEST_CASE("random changes keep a tree's counts, and a claim's bytes are what its release frees") {
  for (const std::int32_t block : {1, 16}) {
    std::mt19937 random(17);
    PlanTree tree({.state_bytes = 1000, .kv_bytes_per_token = 3, .kv_block = block});
    for (int i = 0; i < 3000; ++i) {
      change(tree, random);
      if (i % 50 != 0) continue;
      tree.verify();
      REQUIRE(tree.bytes() == bytes_by_hand(tree));
      for (const PlanNode n : nodes_of(tree)) {
        if (tree[n].claim == Claim::none) continue;
        const std::uint64_t held = tree.exclusive_bytes(n);
        const Claim claim = tree[n].claim;
        const std::uint64_t before = tree.bytes();
        tree.release(n);
        REQUIRE(before - tree.bytes() == held);
        REQUIRE(tree.added_bytes(n) == held);
        tree.claim(n, claim, StateKind::branch);
        break;
      }
    }
  }
}

TEST_CASE("a replica that replays the log is the same tree, slot by slot") {
  std::mt19937 random(23);
  const ByteCosts costs{.state_bytes = 10, .kv_bytes_per_token = 1, .kv_block = 16};
  PlanTree tree(costs), replica(costs);
  Log log;
  tree.listen(&log);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 60; ++i) change(tree, random);
    if (round == 20) tree.clear();
    for (const TreeOp& op : log.ops) replica.apply(op);
    log.ops.clear();
    REQUIRE(replica.slots() == tree.slots());
    REQUIRE(replica.bytes() == tree.bytes());
    for (PlanNode n = 0; n < tree.slots(); ++n) {
      REQUIRE(replica[n].used == tree[n].used);
      REQUIRE(replica[n].parent == tree[n].parent);
      REQUIRE(replica[n].depth == tree[n].depth);
      REQUIRE(replica[n].claim == tree[n].claim);
    }
  }
}

TEST_CASE("what would break the tree's invariants is refused") {
  PlanTree tree({.state_bytes = 1, .kv_bytes_per_token = 1});
  const PlanNode a = tree.add_leaf(kPlanRoot, 10);
  const PlanNode b = tree.add_leaf(a, 20);
  CHECK_THROWS_AS(tree.add_leaf(b, 20), cairn::InvariantError);
  CHECK_THROWS_AS(tree.split(b, 10), cairn::InvariantError);
  CHECK_THROWS_AS(tree.split(b, 20), cairn::InvariantError);
  CHECK_THROWS_AS(tree.remove(a), cairn::InvariantError);
  CHECK_THROWS_AS(tree.release(b), cairn::InvariantError);
  tree.claim(b, Claim::stored, StateKind::branch);
  CHECK_THROWS_AS(tree.claim(b, Claim::stored, StateKind::branch), cairn::InvariantError);
  CHECK_THROWS_AS(tree.remove(b), cairn::InvariantError);
  CHECK(tree.claim_above(b) == kPlanRoot);
  tree.claim(a, Claim::pending, StateKind::branch);
  CHECK(tree.claim_above(b) == a);
  CHECK_THROWS_AS(tree.merge(a), cairn::InvariantError);
}
