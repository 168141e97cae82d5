// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_planner.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "base/check.hpp"
#include "engine/placement/forest_policy.hpp"
#include "engine/placement/shape_cache.hpp"

using namespace cairn::engine;

namespace {

constexpr ByteCosts kCosts{.state_bytes = 19'500'000, .kv_bytes_per_token = 12'288};

/// The default rule with a log of what it sees.
class LoggedPolicy final : public CachePolicy {
 public:
  std::string name() const override { return inner.name(); }
  void attach(const PlanTree& tree) override {
    inner.attach(tree);
    tree_ = &tree;
  }
  void observe(const RequestView& request) override {
    inner.observe(request);
    log.request(request);
  }
  std::vector<Placement> place(const RequestView& request) override { return inner.place(request); }
  PlanNode least(const Usable& usable) override { return inner.least(usable); }
  void learn_budget(std::uint64_t bytes) override { inner.learn_budget(bytes); }
  void make_fit(std::uint64_t bytes) override { inner.make_fit(bytes); }
  void changing(const TreeOp& op) override { inner.changing(op); }
  void changed(const TreeOp& op) override {
    inner.changed(op);
    log.changed(op);
  }
  std::shared_ptr<PlanReplica> snapshot() {
    log.restart();
    return std::make_shared<PlanReplica>(*tree_, inner.demand());
  }

  ForestPolicy inner;
  PlanLog log;

 private:
  const PlanTree* tree_ = nullptr;
};

void random_request(ShapeCache& cache, std::vector<PlanNode>& ends, std::mt19937& random) {
  const auto length = static_cast<std::int32_t>(50 + random() % 3000);
  if (ends.empty() || random() % 4 == 0) {
    ends.push_back(cache.request(kPlanRoot, 0, length).end);
    return;
  }
  const PlanNode parent = ends[ends.size() - 1 - random() % std::min<std::size_t>(ends.size(), 30)];
  const std::int32_t shared =
      1 +
      static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(cache.tree()[parent].depth));
  ends.push_back(cache.request(parent, shared, shared + length).end);
}

void check_same(const PlanReplica& replica, const PlanTree& tree, const DemandForest& demand) {
  REQUIRE(replica.tree.slots() == tree.slots());
  REQUIRE(replica.tree.bytes() == tree.bytes());
  for (PlanNode n = 0; n < tree.slots(); ++n) {
    REQUIRE(replica.tree[n].used == tree[n].used);
    if (!tree[n].used) continue;
    REQUIRE(replica.tree[n].claim == tree[n].claim);
    REQUIRE(replica.demand.own_rate(n) == demand.own_rate(n));
    REQUIRE(replica.demand.mass(n) == demand.mass(n));
  }
}

}  // namespace

TEST_CASE("a replica fed with the log has the same statistics, whenever it started") {
  LoggedPolicy policy;
  ShapeCache cache(policy, kCosts, 500'000'000);
  std::mt19937 random(3);
  std::vector<PlanNode> ends;
  for (int i = 0; i < 100; ++i) random_request(cache, ends, random);
  CHECK(policy.log.take().empty());  // nobody asked for events yet
  const auto replica = policy.snapshot();
  ForestPlanner planner;
  planner.start(replica, 500'000'000);
  for (int i = 0; i < 300; ++i) {
    random_request(cache, ends, random);
    if (i % 7 == 0) planner.apply(policy.log.take());
  }
  planner.apply(policy.log.take());
  check_same(*replica, cache.tree(), policy.inner.demand());
}

TEST_CASE("a certificate's bound is below the best plan, and that below what is kept") {
  LoggedPolicy policy;
  constexpr std::uint64_t kBudget = 400'000'000;
  ShapeCache cache(policy, kCosts, kBudget);
  ForestPlanner planner({.certify_every = 1});
  planner.start(policy.snapshot(), kBudget);
  std::mt19937 random(9);
  std::vector<PlanNode> ends;
  int plans = 0;
  for (int i = 0; i < 400; ++i) {
    random_request(cache, ends, random);
    planner.apply(policy.log.take());
    if (!planner.due()) continue;
    const auto plan = planner.solve();
    REQUIRE(plan->certificate);
    const PlanCertificate& c = *plan->certificate;
    ++plans;
    REQUIRE(c.claims == cache.tree().claims());
    REQUIRE(c.bound <= c.best * (1 + 1e-9));
    REQUIRE(c.best <= c.cost * (1 + 1e-9) + 1e-12);
    REQUIRE(c.ideal <= c.bound * (1 + 1e-9) + 1e-12);
    REQUIRE(c.gap() >= -1e-9 * c.cost);
    REQUIRE(plan->expected_recompute_tokens == Approx(c.cost));
  }
  CHECK(plans == 50);
}

TEST_CASE("rates that a planner publishes are what the policy goes on with") {
  LoggedPolicy policy;
  ShapeCache cache(policy, kCosts, 500'000'000);
  ForestPlanner planner;
  planner.start(policy.snapshot(), 500'000'000);
  std::mt19937 random(21);
  std::vector<PlanNode> ends;
  for (int i = 0; i < 200; ++i) {
    random_request(cache, ends, random);
    planner.apply(policy.log.take());
    if (planner.due()) policy.inner.adopt(planner.solve());
  }
  CHECK(policy.inner.demand().sweeps_adopted() == 25);
  policy.inner.demand().verify();
}

TEST_CASE("a replica of a policy that has adopted makes every sweep from its own tables") {
  LoggedPolicy policy;
  ShapeCache cache(policy, kCosts, 500'000'000);
  std::mt19937 random(23);
  std::vector<PlanNode> ends;
  ForestPlanner first, second;
  first.start(policy.snapshot(), 500'000'000);
  for (int i = 0; i < 40; ++i) {
    random_request(cache, ends, random);
    first.apply(policy.log.take());
    if (first.due()) policy.inner.adopt(first.solve());
  }
  REQUIRE(policy.inner.demand().sweeps_adopted() == 5);
  second.start(policy.snapshot(), 500'000'000);
  for (std::uint64_t tick = 48; tick <= 80; tick += 8) {
    for (int i = 0; i < 8; ++i) random_request(cache, ends, random);
    second.apply(policy.log.take());
    REQUIRE(second.due());
    CHECK(second.solve()->rates->tick == tick);
  }
}

TEST_CASE("a log that nobody takes stops instead of growing, and starts anew with a snapshot") {
  PlanTree tree(kCosts);
  PlanLog log;
  tree.listen(&log);
  log.restart();
  for (std::size_t i = 0; i <= PlanLog::kMost; ++i) log.request({});
  CHECK_FALSE(log.running());
  CHECK(log.take().empty());
  log.restart();
  tree.add_leaf(kPlanRoot, 5);
  CHECK(log.take().size() == 1);
}

TEST_CASE("events of another tree are noticed") {
  ForestPlanner planner;
  PlanTree tree(kCosts);
  planner.start(std::make_shared<PlanReplica>(tree), 0);
  const PlanEvent wrong{
      .op = {.type = TreeOp::Type::leaf, .node = 7, .other = kPlanRoot, .depth = 3}};
  CHECK_THROWS_AS(planner.apply(std::span(&wrong, 1)), cairn::InvariantError);
}
