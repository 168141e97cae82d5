// SPDX-License-Identifier: Apache-2.0
// Which running requests will copy a state out at which node.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "engine/placement/plan_tree.hpp"
#include "engine/prefix/prefix_cache.hpp"

namespace cairn::engine {

/// Two requests may save at one node: its claim is pending until one has saved or both have given
/// up. Owned by one thread. Answers with nodes name those that nobody will save at any more.
class PendingClaims {
 public:
  /// `asked`: not planned by the request itself, another one waits for it.
  void add(SequenceId id, PlanNode node, bool asked);
  bool has(SequenceId id, PlanNode node) const;
  std::size_t owners(PlanNode node) const;
  /// True: it was the last.
  bool drop(SequenceId id, PlanNode node);
  /// A state is there.
  void settle(PlanNode node);
  std::vector<PlanNode> end(SequenceId id);
  std::vector<PlanNode> refuse_asked(SequenceId id);

  void clear();
  std::size_t nodes() const { return owners_.size(); }

 private:
  struct Save {
    PlanNode node;
    bool asked;
  };
  bool disown(SequenceId id, PlanNode node);

  std::unordered_map<SequenceId, std::vector<Save>> saves_;
  std::unordered_map<PlanNode, std::vector<SequenceId>> owners_;
};

}  // namespace cairn::engine
