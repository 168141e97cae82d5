// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "engine/placement/forest_policy.hpp"
#include "engine/simulate/shape_replay.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::engine;

namespace {

constexpr ByteCosts kCosts{.state_bytes = 19'500'000, .kv_bytes_per_token = 12'288};
constexpr std::uint64_t kPlenty = 1'000'000'000'000;

std::vector<std::int32_t> positions(const std::vector<Placement>& places) {
  std::vector<std::int32_t> out;
  for (const Placement& p : places) out.push_back(p.position);
  return out;
}

}  // namespace

TEST_CASE(
    "a chat that only goes on writes one state a turn, and each of its ends can be repeated") {
  ForestPolicy policy;
  policy.learn_costs({.write = 2});
  ShapeReplay run(policy, kCosts, kPlenty);
  run.request({.length = 300});
  const std::int64_t first = run.result().states_written;
  for (std::int32_t turn = 1; turn < 30; ++turn) {
    run.request({.length = 300 + 200 * turn, .overlap = 100 + 200 * turn, .parent = turn - 1});
  }
  CHECK(run.result().states_written - first == 29);
  CHECK(run.result().recomputed == 29);  // the last token of each end
  for (std::int32_t turn = 1; turn < 30; ++turn) {
    const std::int32_t length = 300 + 200 * turn;
    run.request({.length = length, .overlap = length, .parent = turn});
  }
  CHECK(run.result().recomputed == 29);
}

TEST_CASE("chats that are left inside get states inside, once that has been seen") {
  ForestPolicy policy;
  ShapeReplay run(policy, kCosts, kPlenty);
  std::int32_t row = -1;
  std::int64_t before = 0;
  for (int chat = 0; chat < 40; ++chat) {
    run.request({.length = 400});
    const std::int32_t start = ++row;
    run.request({.length = 2400, .overlap = 400, .parent = start});
    const std::int32_t long_turn = ++row;
    before = run.result().recomputed;
    run.request({.length = 2300, .overlap = 2200, .parent = long_turn});
    ++row;
  }
  CHECK(run.result().recomputed - before < 64);  // of the last chat, which 1,800 were to cost
}

TEST_CASE("a known part that is computed again gets back the states that others need on it") {
  PlanTree tree({.state_bytes = 1000, .kv_bytes_per_token = 1});
  ForestPolicy policy;
  tree.listen(&policy);
  policy.attach(tree);
  // Twenty prompts left at 320, and its state is gone.
  const PlanNode first = tree.add_leaf(kPlanRoot, 700);
  policy.observe({.tick = 1, .length = 700, .end_node = first});
  const PlanNode fork = tree.split(first, 320);
  std::uint64_t tick = 1;
  const auto left_at = [&](PlanNode node) {
    const PlanNode end = tree.add_leaf(node, 700);
    RequestView view{.tick = ++tick, .length = 700, .overlap = tree[node].depth};
    view.end_node = end;
    view.overlap_node = node;
    policy.observe(view);
    return positions(policy.place(view));
  };
  for (int i = 0; i < 20; ++i) left_at(fork);
  // One goes on past it, and leaves the path at 600.
  const PlanNode later = tree.split(first, 600);
  const auto places = left_at(later);
  CHECK(std::count(places.begin(), places.end(), 320) == 1);
  // With a state there, none.
  tree.claim(fork, Claim::stored, StateKind::branch);
  RequestView view{.tick = ++tick, .length = 700, .overlap = 600, .resume = 320};
  view.end_node = tree.add_leaf(later, 700);
  view.overlap_node = later;
  view.resume_node = fork;
  policy.observe(view);
  const auto after = positions(policy.place(view));
  CHECK(after.front() > 320);
}

TEST_CASE("the more states are kept, the longer a place that is not asked for is remembered") {
  const auto rate_after = [](int claims, int ticks) {
    PlanTree tree({.state_bytes = 1000, .kv_bytes_per_token = 1});
    ForestPolicy policy;
    tree.listen(&policy);
    policy.attach(tree);
    std::uint64_t tick = 0;
    const auto request = [&](std::int32_t length) {
      const PlanNode end = tree.add_leaf(kPlanRoot, length);
      policy.observe({.tick = ++tick, .length = length, .end_node = end});
      return end;
    };
    const PlanNode old = request(500);
    for (int i = 0; i < claims; ++i) {
      tree.claim(request(300), Claim::stored, StateKind::prompt_end);
    }
    while (tick < static_cast<std::uint64_t>(ticks)) request(300);
    return policy.demand().own_rate(old);
  };
  CHECK(rate_after(1000, 2040) > 0);
  CHECK(rate_after(100, 4000) == 0);
  CHECK(rate_after(1000, 4000) > 0);
}
