// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
