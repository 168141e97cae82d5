// SPDX-License-Identifier: Apache-2.0
// What happens to the prefix actor's plan tree, for the planner's replica of it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/placement/demand_forest.hpp"
#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

/// A change of the tree, or a request that came by (its structural points left out). In order.
struct PlanEvent {
  bool is_request = false;
  TreeOp op{};
  RequestView request{};
};

/// A tree and its statistics at one moment, for a replica to start from.
struct PlanReplica {
  explicit PlanReplica(const PlanTree& tree_in, DemandOptions options = {})
      : tree(tree_in), demand(tree, options) {
    tree.listen(&demand);
  }
  PlanReplica(const PlanTree& tree_in, const DemandForest& demand_in)
      : tree(tree_in), demand(tree, demand_in) {
    tree.listen(&demand);
  }
  PlanReplica(const PlanReplica&) = delete;
  PlanReplica& operator=(const PlanReplica&) = delete;

  PlanTree tree;
  DemandForest demand;
};

/// Listens to a tree. Keeps at most `kMost` events: when nobody takes them it drops all and stops
/// until the next snapshot, so that it neither grows nor lies. Owned by one thread.
class PlanLog final : public TreeListener {
 public:
  static constexpr std::size_t kMost = 1U << 20U;

  void changing(const TreeOp& /*op*/) override {}
  void changed(const TreeOp& op) override { add({.op = op}); }
  void request(const RequestView& view) {
    PlanEvent event{.is_request = true, .request = view};
    event.request.structure = {};
    add(event);
  }

  /// From here on events follow a snapshot that is taken now.
  void restart() {
    events_.clear();
    running_ = true;
  }
  void stop() {
    events_.clear();
    running_ = false;
  }
  bool running() const { return running_; }
  std::vector<PlanEvent> take() { return std::exchange(events_, {}); }

 private:
  void add(const PlanEvent& event) {
    if (!running_) return;
    if (events_.size() >= kMost) {
      stop();
      return;
    }
    events_.push_back(event);
  }

  std::vector<PlanEvent> events_;
  bool running_ = false;
};

}  // namespace cairn::engine
