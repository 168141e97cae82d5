// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/rules_marconi.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "engine/placement/shape_cache.hpp"
#include "tests/engine/placement/marconi_oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

// A tree that is changed in every way there is, few ways leaving any place, and the last use of
// every claim.
class Edited {
 public:
  explicit Edited(CachePolicy& rule, std::uint64_t seed)
      : rule_(rule), tree_({.state_bytes = 1000, .kv_bytes_per_token = 10}), rng_(seed) {
    tree_.listen(&rule_);
    rule_.attach(tree_);
  }

  const PlanTree& tree() const { return tree_; }
  const std::map<PlanNode, std::uint64_t>& used() const { return used_; }

  void edit() {
    RequestView view;
    view.tick = ++tick_;
    if (!used_.empty() && below(3) == 0) {
      view.resume_node = std::next(used_.begin(), static_cast<long>(below(used_.size())))->first;
      view.resume = tree_[view.resume_node].depth;
      used_[view.resume_node] = tick_;
    }
    rule_.observe(view);
    const PlanNode node = any_node();
    const PlanTree::Node& n = tree_[node];
    switch (below(7)) {
      case 0:
      case 1:
        if (ways(node) < 12) tree_.add_leaf(node, n.depth + 1 + static_cast<int>(below(80)));
        break;
      case 2:
        if (node != kPlanRoot && n.depth - tree_[n.parent].depth > 1) {
          tree_.split(node, tree_[n.parent].depth + 1 +
                                static_cast<int>(below(static_cast<std::size_t>(
                                    n.depth - tree_[n.parent].depth - 1))));
        }
        break;
      case 3:
      case 4:
        if (node != kPlanRoot && n.claim == Claim::none) {
          tree_.claim(node, below(2) == 0 ? Claim::pending : Claim::stored, StateKind::branch);
          used_[node] = tick_;
        } else if (n.claim == Claim::pending) {
          tree_.claim(node, Claim::stored, StateKind::branch);
        }
        break;
      case 5:
        if (n.claim != Claim::none) {
          tree_.release(node);
          used_.erase(node);
        }
        break;
      default:
        if (node == kPlanRoot || n.claim != Claim::none) break;
        if (ways(node) == 0) {
          tree_.remove(node);
        } else if (ways(node) == 1) {
          tree_.merge(node);
        }
    }
  }

  std::size_t below(std::size_t bound) { return rng_() % bound; }

 private:
  PlanNode any_node() {
    std::vector<PlanNode> all;
    tree_.top_down(all);
    return all[below(all.size())];
  }
  int ways(PlanNode node) const {
    int count = 0;
    for (PlanNode c = tree_[node].first_child; c != kNoPlanNode; c = tree_[c].next) ++count;
    return count;
  }

  CachePolicy& rule_;
  PlanTree tree_;
  std::mt19937_64 rng_;
  std::map<PlanNode, std::uint64_t> used_;
  std::uint64_t tick_ = 0;
};

}  // namespace

TEST_CASE("however the tree and the costs change, marconi names what a scan of all claims names") {
  int named = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const double alpha = seed % 4 == 0 ? 0 : 0.5 * static_cast<double>(seed % 4);
    MarconiPolicy rule("marconi", alpha);
    Edited edited(rule, seed);
    PolicyCosts costs;
    for (int i = 0; i < 1000; ++i) {
      edited.edit();
      if (i % 200 == 199) {
        costs.prefill.b += 0.01;
        rule.learn_costs(costs);
      }
      const std::uint64_t held = edited.below(64);  // which claims live work holds
      const auto usable = [&](PlanNode n) { return ((held >> (n % 6)) & 1) == 0; };
      const PlanNode expected =
          test::marconi_choice(edited.tree(), edited.used(), usable, alpha, costs.prefill);
      REQUIRE(rule.least(usable) == expected);
      named += expected != kNoPlanNode ? 1 : 0;
    }
  }
  CHECK(named > 6'000);
}

TEST_CASE("for marconi a state turns into a fork and back as ways on come and go") {
  MarconiPolicy rule("marconi:0", 0);
  PlanTree tree({.state_bytes = 1000});
  tree.listen(&rule);
  rule.attach(tree);
  PlanNode states[2];
  for (PlanNode& state : states) {
    RequestView view;
    view.tick = &state == states ? 1 : 2;
    rule.observe(view);
    state = tree.add_leaf(kPlanRoot, 10);
    tree.claim(state, Claim::stored, StateKind::branch);
  }
  const auto any = [](PlanNode) { return true; };
  CHECK(rule.least(any) == states[0]);
  PlanNode way = kPlanRoot;
  for (int i = 0; i < 40; ++i) way = tree.add_leaf(states[0], 20);
  CHECK(rule.least(any) == states[1]);
  tree.remove(way);
  CHECK(rule.least(any) == states[0]);
}

TEST_CASE("marconi replays two rows a request under each alpha, so that no request waits for it") {
  struct Case {
    std::uint64_t budget;
    bool done_with_window;
  };
  // The window ends after six times the requests before the first eviction, at most 4,096: late
  // first evictions leave less of it than there is to make up for.
  for (const Case c : {Case{200'000, true}, Case{6'000'000, false}}) {
    TunedMarconiPolicy rule("marconi");
    ShapeCache cache(rule, {.state_bytes = 1000, .kv_bytes_per_token = 10}, c.budget);
    int requests = 0, until_full = 0;
    while (!rule.tuned() && requests < 9000) {
      const auto served = cache.request(kPlanRoot, 0, 50 + requests % 100);
      ++requests;
      if (until_full == 0 && served.evicted + served.refused > 0) until_full = requests;
    }
    REQUIRE(rule.tuned());
    REQUIRE(until_full > 64);
    const int window = std::min(6 * until_full, 4096);
    const int behind = window - 2 * (window - until_full);
    CHECK((behind <= 0) == c.done_with_window);
    CHECK(requests == window + (behind > 0 ? (behind + 1) / 2 : 0));
  }
}
