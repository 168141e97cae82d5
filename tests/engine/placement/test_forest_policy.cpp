// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/forest_policy.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "bench/tables/policy_table.hpp"
#include "engine/placement/planner.hpp"
#include "engine/simulate/shape_replay.hpp"
#include "engine/simulate/trace.hpp"

using namespace cairn::engine;

namespace {

constexpr ByteCosts kCosts{.state_bytes = 19'500'000, .kv_bytes_per_token = 12'288};
constexpr std::uint64_t kPlenty = 1'000'000'000'000;

// Chats that go on, documents with questions and prompts of their own, mixed at random.
std::vector<TraceRequest> mixed_workload(std::uint32_t seed, int requests) {
  std::mt19937 random(seed);
  std::vector<TraceRequest> rows;
  for (int i = 0; i < requests; ++i) {
    TraceRequest row{.length = 50 + static_cast<std::int32_t>(random() % 3000)};
    if (i > 0 && random() % 4 != 0) {
      row.parent = static_cast<std::int32_t>(rows.size() - 1 - random() % std::min(i, 40));
      const TraceRequest& parent = rows[static_cast<std::size_t>(row.parent)];
      switch (random() % 3) {
        case 0:  // goes on
          row.overlap = parent.length;
          row.length = parent.length + 1 + static_cast<std::int32_t>(random() % 300);
          break;
        case 1:  // leaves it somewhere
          row.overlap = 1 + static_cast<std::int32_t>(random()) % parent.length;
          row.overlap = std::max(row.overlap, 1);
          row.length = row.overlap + 1 + static_cast<std::int32_t>(random() % 300);
          break;
        default:  // the same again
          row.overlap = row.length = parent.length;
      }
    }
    rows.push_back(row);
  }
  return rows;
}

// W of every claim, from nothing: each node's own rate goes to its nearest claim.
std::map<PlanNode, double> served_by_hand(const PlanTree& tree, const DemandForest& demand) {
  std::map<PlanNode, double> served;
  std::vector<PlanNode> all;
  tree.top_down(all);
  for (const PlanNode n : all) {
    PlanNode near = n;
    while (near != kPlanRoot && tree[near].claim == Claim::none) near = tree[near].parent;
    served[near] += demand.own_rate(n);
  }
  return served;
}

std::shared_ptr<const Plan> plan_with(std::shared_ptr<const DemandRates> rates) {
  auto plan = std::make_shared<Plan>();
  plan->rates = std::move(rates);
  return plan;
}

double live_share(const std::string& trace, double gigabytes) {
  ForestPolicy policy;
  policy.learn_costs({.write = 2});
  const auto recorded =
      read_trace(std::string(CAIRN_SOURCE_DIR) + "/bench/traces/" + trace + ".csv.gz");
  return cairn::bench::replay_trace(*recorded, policy, gigabytes).share();
}

}  // namespace

TEST_CASE("what each claim serves is the demand that it is nearest to") {
  for (const std::uint64_t budget : {std::uint64_t{300'000'000}, kPlenty}) {
    ForestPolicy policy;
    ShapeReplay run(policy, kCosts, budget);
    int i = 0;
    for (const TraceRequest& row : mixed_workload(5, 400)) {
      run.request(row);
      if (++i % 7 != 0) continue;
      policy.demand().verify();
      for (const auto& [node, served] : served_by_hand(run.tree(), policy.demand())) {
        REQUIRE(policy.demand().served(node) == Approx(served).margin(1e-9));
      }
    }
  }
}

TEST_CASE("the claim given up first has the least predicted loss per byte") {
  ForestPolicy policy;
  ShapeReplay run(policy, kCosts, kPlenty);
  for (const TraceRequest& row : mixed_workload(9, 300)) run.request(row);
  const PlanTree& tree = run.tree();
  double least = 1e300;
  for (PlanNode n = 1; n < tree.slots(); ++n) {
    if (tree[n].used && tree[n].claim != Claim::none)
      least = std::min(least, policy.loss_per_byte(n));
  }
  const PlanNode named = policy.least([](PlanNode) { return true; });
  CHECK(policy.loss_per_byte(named) == Approx(least).margin(1e-30));
  const PlanNode other = policy.least([&](PlanNode n) { return n != named; });
  CHECK(other != named);
  CHECK(policy.least([](PlanNode) { return false; }) == kNoPlanNode);
}

TEST_CASE("a policy fed with random requests never overruns its budget or loses count") {
  for (const std::uint64_t budget : {20'000'000ULL, 100'000'000ULL, 2'000'000'000ULL}) {
    ForestPolicy policy;
    ShapeReplay run(policy, kCosts, budget);
    for (const TraceRequest& row : mixed_workload(31, 600)) {
      run.request(row);
      REQUIRE(run.tree().bytes() <= budget);
    }
    run.tree().verify();
    policy.demand().verify();
  }
}

TEST_CASE("an exact repeat is a hit at the second request, a branch at its third sighting") {
  ForestPolicy policy;
  ShapeReplay run(policy, kCosts, kPlenty);
  run.request({.length = 2000});
  run.request({.length = 2000, .overlap = 2000, .parent = 0});
  CHECK(run.result().recomputed == 0);
  run.request({.length = 1500, .overlap = 1303, .parent = 0});  // plants the branch
  const auto before = run.result().recomputed;
  run.request({.length = 1600, .overlap = 1303, .parent = 0});
  CHECK(run.result().recomputed - before < 32);
  run.request({.length = 1700, .overlap = 1303, .parent = 0});
  const auto planted = run.result().recomputed;
  run.request({.length = 1800, .overlap = 1303, .parent = 0});
  CHECK(run.result().recomputed == planted);
}

TEST_CASE("a conversation that only goes on keeps its newest end, however little room there is") {
  ForestPolicy policy;
  ShapeReplay run(policy, kCosts, 200'000'000);  // ten states
  run.request({.length = 400});
  for (int turn = 1; turn < 60; ++turn) {
    run.request({.length = 400 + 20 * turn, .overlap = 400 + 20 * (turn - 1), .parent = turn - 1});
  }
  // An end's state leaves its last token to compute; a newest end may be lost while nothing is
  // known.
  CHECK(run.result().recomputed <= 59 + 40);
}

TEST_CASE("structural points that are hit become worth more than those that never are") {
  PlanTree tree({.state_bytes = 1000, .kv_bytes_per_token = 1});
  ForestPolicy policy;
  tree.listen(&policy);
  policy.attach(tree);
  // Every prompt is a turn's start that comes back, and a pinned place that never does.
  std::uint64_t tick = 0;
  double turn_rate = 0, pinned_rate = 0;
  for (int i = 0; i < 40; ++i) {
    const PlanNode end = tree.add_leaf(kPlanRoot, 300);
    policy.observe({.tick = ++tick, .length = 300, .end_node = end});
    const PlanNode pinned = tree.split(end, 100);
    tree.claim(pinned, Claim::stored, StateKind::pinned);
    const PlanNode turn = tree.split(end, 200);
    tree.claim(turn, Claim::stored, StateKind::turn);
    CHECK(policy.demand().kind(turn) == PointKind::turn);
    CHECK(policy.demand().kind(pinned) == PointKind::pinned);
    turn_rate = policy.demand().own_rate(turn);
    pinned_rate = policy.demand().own_rate(pinned);
    const PlanNode next = tree.add_leaf(turn, 350);
    policy.observe({.tick = ++tick,
                    .length = 350,
                    .overlap = 200,
                    .resume = 200,
                    .end_node = next,
                    .overlap_node = turn,
                    .resume_node = turn});
  }
  CHECK(turn_rate > 5 * pinned_rate);
}

TEST_CASE("of thousands of messages in one prompt the first and the last ones are tried for") {
  PlanTree tree(kCosts);
  ForestPolicy policy;
  tree.listen(&policy);
  policy.attach(tree);
  std::vector<StructuralPoint> messages;
  for (std::int32_t p = 7; p < 70'000; p += 7) messages.push_back({p, StateKind::turn});
  const RequestView request{.tick = 1,
                            .length = 70'000,
                            .resume = 700,
                            .end_node = tree.add_leaf(kPlanRoot, 70'000),
                            .structure = messages};
  policy.observe(request);
  std::vector<std::int32_t> tried;
  for (const Placement& p : policy.place(request)) {
    if (p.kind == StateKind::turn) tried.push_back(p.position);
  }
  REQUIRE(tried.size() == 16);
  CHECK(tried.front() == 707);
  CHECK(tried[1] == 70'000 - 15 * 7);
  CHECK(tried.back() == 70'000 - 7);
}

TEST_CASE("a write that costs more than it can bring is not made") {
  const auto written = [](double write) {
    ForestPolicy policy;
    policy.learn_costs({.write = write});
    ShapeReplay run(policy, kCosts, kPlenty);
    for (int i = 0; i < 100; ++i) run.request({.length = 1000});
    return run.result().states_written;
  };
  CHECK(written(0) == 1700);  // the end and sixteen inside
  CHECK(written(1e9) == 100);
}

TEST_CASE("tables of a replica are adopted while they are fresh, and decide alike") {
  const auto rows = mixed_workload(13, 500);
  ForestPolicy alone, led;
  ShapeReplay run_alone(alone, kCosts, 400'000'000), run_led(led, kCosts, 400'000'000);
  for (const TraceRequest& row : rows) {
    run_alone.request(row);
    run_led.request(row);
    led.adopt(plan_with(alone.demand().rates()));
  }
  CHECK(led.demand().sweeps_adopted() > 50);
  const auto led_tokens = static_cast<double>(run_led.result().recomputed);
  CHECK(led_tokens == Approx(static_cast<double>(run_alone.result().recomputed)).epsilon(0.05));

  const auto stale = alone.demand().rates();
  for (int i = 0; i < 40; ++i) run_led.request({.length = 100});
  const auto adopted = led.demand().sweeps_adopted();
  led.adopt(plan_with(stale));
  CHECK(led.demand().sweeps_adopted() == adopted);
}

TEST_CASE("tables of requests that a policy has not seen are not adopted") {
  ForestPolicy before, after;
  ShapeReplay run_before(before, kCosts, 400'000'000), run_after(after, kCosts, 400'000'000);
  for (int i = 0; i < 100; ++i) run_before.request({.length = 100});
  after.adopt(plan_with(before.demand().rates()));  // published for the one it replaces
  CHECK(after.demand().sweeps_adopted() == 0);
  for (int i = 0; i < 8; ++i) run_after.request({.length = 100});
  CHECK(after.demand().rates()->tick == 8);
}

TEST_CASE("what was learned is the same after a restart, and nothing else is taken for it") {
  ForestPolicy before;
  ShapeReplay run(before, kCosts, 500'000'000);
  for (const TraceRequest& row : mixed_workload(3, 500)) run.request(row);
  const std::vector<std::byte> saved = before.save();

  PlanTree tree(kCosts);
  ForestPolicy after;
  tree.listen(&after);
  after.attach(tree);
  REQUIRE(after.load(saved));
  const bool same = after.save() == saved;
  CHECK(same);
  CHECK(after.demand().interior().weights() == before.demand().interior().weights());

  ForestPolicy fresh;
  PlanTree other(kCosts);
  fresh.attach(other);
  const auto empty = fresh.save();
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> broken = saved;
    if (i % 3 == 0) {
      broken.resize(random() % saved.size());
    } else {
      for (int k = 0; k < 8; ++k)
        broken[random() % saved.size()] = static_cast<std::byte>(random());
    }
    if (fresh.load(broken)) fresh.load(empty);
    const bool empty_again = fresh.save() == empty;
    REQUIRE(empty_again);
  }
  CHECK_FALSE(fresh.load({}));
}

TEST_CASE("the recorded workloads are served as well as the recipe promises") {
  CHECK(live_share("xquad_en_live20", 1) <= 3.05 + 0.5);
  CHECK(live_share("xquad_en_live20", 4) <= 0.50 + 0.1);
  CHECK(live_share("gsm8k8shot", 0.25) <= 0.14);
  CHECK(live_share("bbh3shot_live20", 1) <= 2.51 + 0.5);
}
