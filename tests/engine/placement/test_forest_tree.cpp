// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_tree.hpp"

#include <map>

#include "base/check.hpp"
#include "tests/engine/placement/forest_oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

struct Instance {
  PlanTree tree;
  std::vector<double> rates;
  std::vector<Hold> holds;  // by slot

  Hold hold(PlanNode n) const { return holds[n]; }
  std::function<Hold(PlanNode)> holder() const {
    return [this](PlanNode n) { return holds[n]; };
  }
};

// Leaves and splits at random, a few slots freed and used again.
template <class Rng>
Instance random_instance(Rng& rng, int nodes, ByteCosts bytes, double may) {
  std::uniform_real_distribution<double> unit(0, 1);
  Instance x{PlanTree(bytes), {}, {}};
  std::vector<PlanNode> made{kPlanRoot};
  while (x.tree.size() < nodes) {
    const PlanNode at = made[rng() % made.size()];
    const PlanNode parent = x.tree[at].parent;
    if (at != kPlanRoot && unit(rng) < 0.3 && x.tree[at].depth - x.tree[parent].depth > 1) {
      made.push_back(x.tree.split(at, (x.tree[at].depth + x.tree[parent].depth) / 2));
    } else {
      made.push_back(x.tree.add_leaf(at, x.tree[at].depth + 1 + static_cast<int>(rng() % 40)));
    }
    if (unit(rng) < 0.1 && x.tree[made.back()].first_child == kNoPlanNode) {
      x.tree.remove(made.back());
      made.pop_back();
    }
  }
  x.rates.assign(x.tree.slots(), 0);
  x.holds.assign(x.tree.slots(), Hold::never);
  for (const PlanNode n : made) {
    if (unit(rng) < 0.7) x.rates[n] = std::floor(10 * unit(rng));
    if (unit(rng) < may) x.holds[n] = unit(rng) < 0.1 ? Hold::must : Hold::may;
  }
  return x;
}

// Every node of the tree, nothing folded.
struct Whole {
  oracle::Forest nodes;
  std::vector<PlanNode> of;
};

Whole uncompressed(const Instance& x) {
  const ByteCosts& bytes = x.tree.costs();
  const double block = static_cast<double>(bytes.kv_bytes_per_token) * bytes.kv_block;
  Whole whole;
  std::vector<PlanNode> order;
  x.tree.top_down(order);
  std::map<PlanNode, std::int32_t> index;
  for (const PlanNode n : order) {
    if (n == kPlanRoot) continue;
    const auto& node = x.tree[n];
    DemandNode out;
    out.parent = node.parent == kPlanRoot ? -1 : index[node.parent];
    out.depth = node.depth;
    out.demand = x.rates[n];
    out.state_bytes =
        static_cast<double>(bytes.state_bytes) + (node.depth % bytes.kv_block != 0 ? block : 0);
    const auto blocks_to = [&](PlanNode at) { return x.tree[at].depth / bytes.kv_block; };
    out.edge_bytes = block * (blocks_to(n) - blocks_to(node.parent));
    out.can_hold = x.holds[n] != Hold::never;
    out.pinned = x.holds[n] == Hold::must;
    index[n] = static_cast<std::int32_t>(whole.nodes.size());
    whole.nodes.push_back(out);
    whole.of.push_back(n);
  }
  return whole;
}

constexpr ByteCosts kByToken{.state_bytes = 50, .kv_bytes_per_token = 2, .kv_block = 1};
constexpr ByteCosts kByBlock{.state_bytes = 50, .kv_bytes_per_token = 2, .kv_block = 16};

}  // namespace

TEST_CASE("the compressed tree has the optimum of the whole at every price") {
  std::mt19937_64 rng(71);
  for (int round = 0; round < 300; ++round) {
    const CostModel cost{1, round % 2 ? 0.1 : 0};
    const Instance x =
        random_instance(rng, 60, round % 3 ? kByBlock : kByToken, round % 5 ? 0.2 : 1);
    const CompressedTree small = compress_tree(x.tree, x.rates, x.holder(), cost);
    const Whole whole = uncompressed(x);
    REQUIRE(small.nodes.size() <= whole.nodes.size());
    ForestSolver a = ForestSolver::make(small.nodes, cost).take();
    ForestSolver b = ForestSolver::make(whole.nodes, cost).take();
    for (const double price : {0.0, 0.05, 0.2, 1.0, 5.0, 30.0}) {
      const ForestPlan p = a.solve_at(price), q = b.solve_at(price);
      REQUIRE(p.lagrangian() + small.sunk_cost == Approx(q.lagrangian()).epsilon(1e-9));
      std::vector<PlanNode> ours, theirs;
      for (const auto s : p.states) ours.push_back(small.of[static_cast<std::size_t>(s)]);
      for (const auto s : q.states) theirs.push_back(whole.of[static_cast<std::size_t>(s)]);
      std::sort(ours.begin(), ours.end());
      std::sort(theirs.begin(), theirs.end());
      REQUIRE(ours == theirs);
    }
  }
}

TEST_CASE("a tree's plan has the tree's own bytes and cost, and its bound holds") {
  std::mt19937_64 rng(72);
  for (int round = 0; round < 300; ++round) {
    INFO("round " << round);
    Instance x = random_instance(rng, 9, round % 2 ? kByBlock : kByToken, 0.6);
    const Whole whole = uncompressed(x);
    const auto plans = oracle::every_plan(whole.nodes, {});
    for (const double budget : {0.0, 60.0, 150.0, 400.0, 1e6}) {
      const double best = oracle::best_within(plans, budget);
      const auto plan = solve_tree(x.tree, x.rates, x.holder(), {}, budget);
      REQUIRE(plan.ok() == (best < HUGE_VAL));
      if (!plan) continue;
      REQUIRE(plan->bound <= best * (1 + 1e-9) + 1e-9);
      REQUIRE(best <= plan->cost * (1 + 1e-9) + 1e-9);
      PlanTree held = x.tree;
      for (const PlanNode s : plan->states) {
        REQUIRE(x.holds[s] != Hold::never);
        held.claim(s, Claim::stored, StateKind::planned);
      }
      REQUIRE(plan->bytes == static_cast<double>(held.bytes()));
      REQUIRE(plan->bytes <= budget);
      const auto is_held = [&](PlanNode n) { return held[n].claim != Claim::none; };
      REQUIRE(tree_cost(x.tree, x.rates, is_held, {}) == Approx(plan->cost).epsilon(1e-12));
    }
  }
}

TEST_CASE("of a tree that remembers far more than it holds only holders and forks are solved for") {
  std::mt19937_64 rng(73);
  const Instance x = random_instance(rng, 5000, kByBlock, 0.01);
  const CompressedTree small = compress_tree(x.tree, x.rates, x.holder(), {});
  std::size_t holders = 0;
  for (std::size_t i = 0; i < small.nodes.size(); ++i) {
    holders += small.nodes[i].can_hold ? 1 : 0;
    CHECK(small.nodes[i].can_hold == (x.hold(small.of[i]) != Hold::never));
  }
  CHECK(holders > 30);
  CHECK(small.nodes.size() < 2 * holders);
  double rates = 0, kept = 0;
  for (const double r : x.rates) rates += r;
  for (const DemandNode& n : small.nodes) kept += n.demand;
  CHECK(kept <= rates);
}

TEST_CASE("a tree without holders costs what its demand costs from nothing") {
  PlanTree tree(kByToken);
  const PlanNode a = tree.add_leaf(kPlanRoot, 10);
  const PlanNode b = tree.add_leaf(a, 30);
  std::vector<double> rates(tree.slots(), 0);
  rates[a] = 2;
  rates[b] = 1;
  const auto never = [](PlanNode) { return Hold::never; };
  const auto plan = solve_tree(tree, rates, never, {}, 1e9);
  REQUIRE(plan.ok());
  CHECK(plan->states.empty());
  CHECK(plan->cost == 50);
  CHECK(plan->gap() == 0);
  rates[a] = -1e-18;
  CHECK(solve_tree(tree, rates, never, {}, 1e9)->cost == 30);
  rates[a] = NAN;
  CHECK_THROWS_AS(solve_tree(tree, rates, never, {}, 1e9), InvariantError);
}
