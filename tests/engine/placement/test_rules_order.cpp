// SPDX-License-Identifier: Apache-2.0
// What the comparison policies give up first, against slow copies of their definitions.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/placement/policy_names.hpp"
#include "engine/placement/rules_marconi.hpp"
#include "engine/placement/shape_cache.hpp"
#include "tests/engine/placement/marconi_oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

bool any(PlanNode) { return true; }

constexpr ByteCosts kBytes{.state_bytes = 1000, .kv_bytes_per_token = 10};

// Checks every victim that a policy names against what a definition names.
class Watched final : public CachePolicy {
 public:
  using Expected = std::function<PlanNode(const Watched&)>;
  Watched(std::unique_ptr<CachePolicy> policy, bool touches_path, Expected expected)
      : policy_(std::move(policy)), touches_path_(touches_path), expected_(std::move(expected)) {}

  std::string name() const override { return policy_->name(); }
  void attach(const PlanTree& t) override {
    CachePolicy::attach(t);
    policy_->attach(t);
  }
  void observe(const RequestView& view) override {
    tick_ = view.tick;
    if (view.resume > 0) used_[view.resume_node] = tick_;
    for (PlanNode n = view.overlap_node; touches_path_ && n != kPlanRoot; n = tree()[n].parent) {
      if (tree()[n].claim == Claim::stored) used_[n] = tick_;
    }
    policy_->observe(view);
  }
  std::vector<Placement> place(const RequestView& view) override { return policy_->place(view); }
  PlanNode least(const Usable& usable) override {
    const PlanNode victim = policy_->least(usable);
    REQUIRE(victim == expected_(*this));
    ++victims_;
    return victim;
  }
  void changed(const TreeOp& op) override {
    if (op.type == TreeOp::Type::claim && op.before == Claim::none) used_[op.node] = tick_;
    policy_->changed(op);
  }
  void changing(const TreeOp& op) override {
    if (op.type == TreeOp::Type::release) used_.erase(op.node);
    policy_->changing(op);
  }

  const std::map<PlanNode, std::uint64_t>& used() const { return used_; }
  const PlanTree& shape() const { return tree(); }
  int victims() const { return victims_; }

 private:
  std::unique_ptr<CachePolicy> policy_;
  bool touches_path_;
  Expected expected_;
  std::map<PlanNode, std::uint64_t> used_;  // by claim
  std::uint64_t tick_ = 0;
  int victims_ = 0;
};

PlanNode oldest(const Watched& w, const std::set<PlanNode>& among) {
  return *std::min_element(among.begin(), among.end(), [&](PlanNode a, PlanNode b) {
    return std::pair(w.used().at(a), -w.shape()[a].depth) <
           std::pair(w.used().at(b), -w.shape()[b].depth);
  });
}

std::set<PlanNode> all_claims(const Watched& w) {
  std::set<PlanNode> out;
  for (const auto& [node, tick] : w.used()) out.insert(node);
  return out;
}

PlanNode least_recent(const Watched& w) { return oldest(w, all_claims(w)); }

// Conversations, documents with questions and prompts of their own. Few ways leave any place.
void feed(ShapeCache& cache, std::uint64_t seed, int requests) {
  std::mt19937_64 rng(seed);
  struct Past {
    PlanNode end;
    std::int32_t length;
  };
  std::vector<Past> past;
  for (int i = 0; i < requests; ++i) {
    PlanNode parent = kPlanRoot;
    std::int32_t overlap = 0;
    if (!past.empty() && rng() % 5 != 0) {
      const Past& p = past[past.size() - 1 - rng() % std::min<std::size_t>(past.size(), 12)];
      parent = p.end;
      overlap = rng() % 2 != 0
                    ? p.length
                    : static_cast<std::int32_t>(1 + rng() % static_cast<std::uint64_t>(p.length));
    }
    const auto length = overlap + static_cast<std::int32_t>(1 + rng() % 60);
    past.push_back({cache.request(parent, overlap, length).end, length});
  }
}

int replayed(const std::string& spelling, bool touches_path, const Watched::Expected& expected,
             std::uint64_t seed) {
  Watched watched(make_cache_policy(spelling).take(), touches_path, expected);
  ShapeCache cache(watched, kBytes, 30'000);
  feed(cache, seed, 400);
  return watched.victims();
}

}  // namespace

TEST_CASE(
    "least recently used counts a hit for the state resumed from, the deepest first of one tick") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const char* spelling : {"branch", "balanced:2", "log:2+branch", "sqrt_spacing"}) {
      CHECK(replayed(spelling, false, least_recent, seed) > 100);
    }
  }
}

TEST_CASE("branch_path, last and block count it for all states on the path") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const char* spelling : {"branch_path", "last", "block:16"}) {
      CHECK(replayed(spelling, true, least_recent, seed) > 100);
    }
  }
}

TEST_CASE(
    "marconi gives up the least of recency and saved prefill per byte, forks after branches") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const double alpha : {0.0, 0.5, 4.0}) {
      const auto expected = [alpha](const Watched& w) {
        return test::marconi_choice(w.shape(), w.used(), any, alpha);
      };
      CHECK(replayed("marconi:" + std::to_string(alpha), false, expected, seed) > 100);
    }
  }
}

TEST_CASE("claims in use are passed over, and with none usable there is no victim") {
  for (const char* spelling : {"branch", "branch_path", "marconi:1", "marconi"}) {
    const auto rule = make_cache_policy(spelling).take();
    ShapeCache cache(*rule, kBytes, 1'000'000);
    const PlanNode first = cache.request(kPlanRoot, 0, 50).end;
    cache.request(first, 20, 60);
    const PlanNode least = rule->least(any);
    REQUIRE(least != kNoPlanNode);
    const PlanNode second = rule->least([&](PlanNode n) { return n != least; });
    CHECK(second != kNoPlanNode);
    CHECK(second != least);
    CHECK(rule->least([](PlanNode) { return false; }) == kNoPlanNode);
  }
}

TEST_CASE("for marconi a place that very many prompts left by ways of their own is a fork") {
  MarconiPolicy rule("marconi:0", 0);
  ShapeCache cache(rule, {.state_bytes = 1000}, 4000);  // room for four states
  PlanNode parent = cache.request(kPlanRoot, 0, 100).end;
  for (int i = 0; i < 45; ++i) cache.request(parent, 80, 100 + i);
  PlanNode fork = parent;
  while (cache.tree()[fork].depth > 80) fork = cache.tree()[fork].parent;
  REQUIRE(cache.tree()[fork].depth == 80);
  for (int i = 0; i < 20; ++i) cache.request(kPlanRoot, 0, 100);
  CHECK(cache.tree()[fork].claim == Claim::stored);                  // the oldest by far
  CHECK(rule.least([&](PlanNode n) { return n == fork; }) == fork);  // with nothing else to give up
}

TEST_CASE("states that do not fit beside their own KV are not tried for") {
  const auto rule = make_cache_policy("branch").take();
  ShapeCache cache(*rule, kBytes, 5'000);
  cache.request(kPlanRoot, 0, 300);  // 1000 + 299 * 10
  CHECK(cache.tree().bytes() == 3'990);
  const auto served = cache.request(kPlanRoot, 0, 600);
  CHECK(served.written + served.evicted + served.refused == 0);
  CHECK(cache.tree().bytes() == 3'990);
}

TEST_CASE("a state is as old as its request, however late it is stored") {
  const auto rule = make_cache_policy("branch").take();
  PlanTree tree(kBytes);
  tree.listen(rule.get());
  rule->attach(tree);
  RequestView view;
  view.length = 10;
  view.tick = 1;
  rule->observe(view);
  const PlanNode slow = tree.add_leaf(kPlanRoot, 10);
  tree.claim(slow, Claim::pending, StateKind::prompt_end);
  view.tick = 2;
  rule->observe(view);
  const PlanNode quick = tree.add_leaf(kPlanRoot, 20);
  tree.claim(quick, Claim::stored, StateKind::prompt_end);
  view.tick = 3;
  rule->observe(view);
  tree.claim(slow, Claim::stored, StateKind::prompt_end);
  CHECK(rule->least(any) == slow);
}

TEST_CASE("marconi without alpha finds one that does as well as the best of those it tries") {
  // Long prompts that come back behind a flood of short ones that never do: recency alone keeps
  // the flood.
  const auto run = [](const std::string& spelling) {
    const auto rule = make_cache_policy(spelling).take();
    ShapeCache cache(*rule, kBytes, 60'000);
    std::mt19937_64 rng(5);
    std::vector<PlanNode> documents(8, kPlanRoot);
    std::int64_t late = 0;
    for (int i = 0; i < 6000; ++i) {
      const std::size_t d = rng() % documents.size();
      if (i % 8 != 0) {
        cache.request(kPlanRoot, 0, 5);
        continue;
      }
      const auto served =
          cache.request(documents[d], documents[d] == kPlanRoot ? 0 : 400, 400 + i % 7);
      if (documents[d] == kPlanRoot) documents[d] = served.end;
      if (i > 4000) late += served.reusable - served.resume;
    }
    return late;
  };
  const std::int64_t tuned = run("marconi");
  const std::int64_t recency = run("marconi:0");
  std::int64_t best = recency;
  for (const char* alpha : {"marconi:0.5", "marconi:1", "marconi:2", "marconi:8"}) {
    best = std::min(best, run(alpha));
  }
  CHECK(best < recency / 2);
  CHECK(tuned <= best * 1.05 + 1);
}

TEST_CASE("marconi tunes once, after a window behind the first eviction") {
  TunedMarconiPolicy rule("marconi");
  ShapeCache cache(rule, kBytes, 30'000);
  feed(cache, 1, 200);
  CHECK_FALSE(rule.tuned());
  feed(cache, 2, 400);
  CHECK(rule.tuned());
}
