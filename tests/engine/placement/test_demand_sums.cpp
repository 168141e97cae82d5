// SPDX-License-Identifier: Apache-2.0
// The sums that rates are added up to, while paths come, fork, idle and go.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "engine/placement/demand_forest.hpp"

using namespace cairn::engine;

namespace {

// A tree and its statistics, driven by hand.
class Workload {
 public:
  explicit Workload(DemandOptions options) : demand_(tree_, options) { tree_.listen(&demand_); }

  // A prompt below `above`; returns its end.
  PlanNode leaf(PlanNode above, std::int32_t fresh) {
    const std::int32_t overlap = tree_[above].depth;
    const PlanNode end = tree_.add_leaf(above, overlap + fresh);
    observe(above, end);
    return end;
  }
  // A prompt that leaves the edge into `lower` before its end.
  PlanNode fork(PlanNode lower, std::int32_t depth, std::int32_t fresh) {
    return leaf(tree_.split(lower, depth), fresh);
  }
  void repeat(PlanNode end) { observe(end, end); }

  PlanTree& tree() { return tree_; }
  const DemandForest& demand() const { return demand_; }

 private:
  void observe(PlanNode overlap, PlanNode end) {
    demand_.observe({.tick = ++tick_,
                     .length = tree_[end].depth,
                     .overlap = tree_[overlap].depth,
                     .end_node = end,
                     .overlap_node = overlap});
  }

  PlanTree tree_{{.state_bytes = 1000, .kv_bytes_per_token = 1, .kv_block = 16}};
  DemandForest demand_;
  std::uint64_t tick_ = 0;
};

}  // namespace

TEST_CASE("sums agree with a recount whatever comes, forks, is claimed, idles and goes") {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    std::mt19937 random(seed);
    Workload w({.idle = 40, .young = 60});
    std::vector<PlanNode> nodes;
    const auto any = [&] {
      w.tree().top_down(nodes);
      return nodes[random() % nodes.size()];
    };
    for (int i = 0; i < 1500; ++i) {
      const PlanNode n = any();
      const PlanTree::Node node = w.tree()[n];
      const std::int32_t above = n == kPlanRoot ? 0 : w.tree()[node.parent].depth;
      const auto fresh = static_cast<std::int32_t>(1 + random() % 200);
      switch (random() % 7) {
        case 0:
        case 1:
          w.leaf(n, fresh);
          break;
        case 2:
          if (node.depth - above > 1) w.fork(n, above + 1, fresh);
          break;
        case 3:
          if (n != kPlanRoot) w.repeat(n);
          break;
        case 4:
          if (n != kPlanRoot && node.claim == Claim::none) {
            w.tree().claim(n, Claim::stored, StateKind::planned);
          }
          break;
        case 5:
          if (node.claim != Claim::none) w.tree().release(n);
          break;
        default:
          if (n == kPlanRoot || node.claim != Claim::none) break;
          if (node.first_child == kNoPlanNode) {
            w.tree().remove(n);
          } else if (node.depth - above > 1) {
            // A place that was claimed and given up again is no point.
            const PlanNode place = w.tree().split(n, node.depth - 1);
            w.tree().claim(place, Claim::pending, StateKind::planned);
            w.demand().verify();
            w.tree().release(place);
            w.tree().merge(place);
          }
      }
      w.demand().verify();
      if (i % 50 == 0) w.tree().verify();
    }
  }
}

TEST_CASE("a sweep looks at what has a rate and its ancestors, not at all that is remembered") {
  constexpr std::int64_t kIdle = 64;
  Workload w({.sweep_every = 8, .idle = kIdle, .young = kIdle});
  PlanNode kept = w.leaf(kPlanRoot, 1000);
  for (int i = 0; i < 3000; ++i) {
    w.leaf(kPlanRoot, 100);
    if (i % 10 == 0) kept = w.leaf(kept, 10);
    // Ends of the last sweep's points, what came since, the kept path and the root.
    if (i > kIdle) REQUIRE(w.demand().summed() <= kIdle + 2 * 8 + 2 + i / 10 + 2);
  }
  CHECK(w.tree().size() > 3000);
  w.demand().verify();
}

TEST_CASE("what idles has no rate until it is hit again") {
  Workload w({.idle = 64, .young = 64});
  const PlanNode old = w.leaf(kPlanRoot, 100);
  w.repeat(old);
  for (int i = 0; i < 100; ++i) w.leaf(kPlanRoot, 10);
  CHECK(w.demand().mass(old) == 0);
  w.repeat(old);
  CHECK(w.demand().mass(old) > 0);
  w.demand().verify();
}
