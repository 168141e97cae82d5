// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/placement/forest_policy.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::engine;

TEST_CASE("of a long chat every marked place is wanted, whatever number of messages it has") {
  PlanTree tree({.state_bytes = 1000, .kv_bytes_per_token = 1});
  ForestPolicy policy;
  tree.listen(&policy);
  policy.attach(tree);
  std::vector<StructuralPoint> structure;
  for (std::int32_t i = 1; i < 200; ++i) {
    structure.push_back({10 * i, i % 13 == 0 ? StateKind::pinned : StateKind::turn});
  }
  RequestView view;
  view.tick = 1;
  view.length = 2000;
  view.resume = 260;
  view.structure = structure;
  view.end_node = tree.add_leaf(kPlanRoot, 2000);
  policy.observe(view);
  const auto places = policy.place(view);
  std::vector<std::int32_t> pinned;
  std::int64_t turns = 0;
  for (const Placement& p : places) {
    if (p.kind == StateKind::pinned) pinned.push_back(p.position);
    if (p.kind == StateKind::turn) ++turns;
  }
  std::vector<std::int32_t> marked;
  for (std::int32_t i = 39; i < 200; i += 13) marked.push_back(10 * i);
  CHECK(pinned == marked);
  CHECK(turns == 16);
}

TEST_CASE(
    "message starts that no prompt leaves at stop being written; those that are left at stay") {
  const auto written = [](bool left_at) {
    PlanTree tree({.state_bytes = 1000, .kv_bytes_per_token = 1});
    ForestPolicy policy;
    policy.learn_costs({.write = 4});
    tree.listen(&policy);
    policy.attach(tree);
    const std::vector<StructuralPoint> structure{{500, StateKind::turn}};
    std::vector<int> turns;  // by request: places at a message start
    std::uint64_t tick = 0;
    for (int i = 0; i < 1500; ++i) {
      RequestView view{.tick = ++tick, .length = 600, .structure = structure};
      view.end_node = tree.add_leaf(kPlanRoot, 600);
      policy.observe(view);
      const auto places = policy.place(view);
      turns.push_back(static_cast<int>(std::count_if(places.begin(), places.end(), [](auto& p) {
        return p.kind == StateKind::turn && p.position == 500;
      })));
      PlanNode from = view.end_node;
      if (turns.back() > 0) {
        const PlanNode start = tree.split(view.end_node, 500);
        tree.claim(start, Claim::stored, StateKind::turn);
        if (left_at) from = start;
      }
      // The answer to it comes back with the next message.
      RequestView next{.tick = ++tick, .length = 700, .overlap = tree[from].depth};
      next.overlap_node = from;
      next.end_node = tree.add_leaf(from, 700);
      policy.observe(next);
    }
    const auto of = [&](int first, int count) {
      return std::accumulate(turns.begin() + first, turns.begin() + first + count, 0);
    };
    return std::pair{of(0, 10), of(1400, 100)};
  };
  CHECK(written(false) == std::pair{10, 0});
  CHECK(written(true) == std::pair{10, 100});
}
