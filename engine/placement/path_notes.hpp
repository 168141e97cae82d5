// SPDX-License-Identifier: Apache-2.0
// What is known of a path since its first prompt.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/placement/plan_tree.hpp"

namespace cairn::engine {

/// One value per node: that of the prompt which first went there. A listener hands its changes on.
template <class T>
class PathNotes {
 public:
  /// `fresh` is for paths that begin here.
  void changed(const TreeOp& op, const T& fresh) {
    if (op.type == TreeOp::Type::clear) notes_.clear();
    if (op.type != TreeOp::Type::leaf && op.type != TreeOp::Type::split) return;
    if (notes_.size() <= op.node) notes_.resize(op.node + std::size_t{1});
    notes_[op.node] = op.type == TreeOp::Type::leaf ? fresh : notes_[op.other];
  }
  const T& operator[](PlanNode node) const { return notes_[node]; }

 private:
  std::vector<T> notes_;
};

}  // namespace cairn::engine
