// SPDX-License-Identifier: Apache-2.0
// The cached states in the order in which the policy gives them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "engine/placement/policy.hpp"
#include "engine/prefix/radix_forest.hpp"

namespace cairn::engine {

/// An ordered set over states, least valuable first; equal values go in order of making. Owned by
/// one thread.
///
/// A value depends on the state itself and on its neighbours (bytes, gap). Adding, dropping and
/// touching a state renews its own value and those of its neighbours, found by looking at
/// kMaxVisits nodes at most: O(log states) each. least() renews the value of what it is about to
/// name, so a value that rose unseen only costs another look. One that fell unseen (very many
/// states hang right below another) is seen at its next renewal. Least recently used depends on no
/// neighbour.
class StateOrder {
 public:
  StateOrder(const RadixForest& forest, Policy& policy, model::MemoryLayout layout)
      : forest_(forest), policy_(policy), layout_(layout) {}

  static constexpr std::size_t kMaxVisits = 256;

  /// What the policy is asked about.
  Candidate candidate(const ForestNode& node) const;
  /// The policy's value of it; NaN counts as worthless.
  double value(const Candidate& candidate) const;

  void add(ForestNode& node);
  void remove(ForestNode& node);
  void renew(ForestNode& node);
  void renew_all();
  void clear() { set_.clear(); }

  /// States whose candidates a state at `node` has a part in: the nearest ones below, those above
  /// that share a block with it, and the one whose KV it shares when there is no other. Nodes with
  /// a state stay where they are when another state is dropped.
  std::vector<ForestNode*> neighbours(ForestNode& node) const;

  /// The least valuable state that nobody outside the forest holds; nullptr: all are in use. O(log
  /// states), and one step for every state in use that is worth less.
  ForestNode* least();

  std::size_t size() const { return set_.size(); }
  /// States that nobody outside the forest holds. O(states).
  std::int64_t unshared_states() const;

 private:
  struct Before {
    bool operator()(const ForestNode* a, const ForestNode* b) const {
      return a->value != b->value ? a->value < b->value : a->made < b->made;
    }
  };

  const RadixForest& forest_;
  Policy& policy_;
  model::MemoryLayout layout_;
  std::set<ForestNode*, Before> set_;
};

}  // namespace cairn::engine
