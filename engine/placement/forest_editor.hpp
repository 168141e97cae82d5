// SPDX-License-Identifier: Apache-2.0
// A plan for a forest that changes by one state at a time, with its cost and bytes kept up to date.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/forest_layout.hpp"

namespace cairn::engine {

/// Borrows the layout. Nodes are ranks. Not thread-safe.
class ForestEditor {
 public:
  ForestEditor(const ForestLayout& layout, ForestHolds holds);

  /// What the state of `rank` saves (seconds) and takes (bytes, with the KV that only it needs) or,
  /// if it is not held, would. O(nodes to the nearest state and kept edge above).
  struct Worth {
    double saved = 0;
    double bytes = 0;
    double density() const { return saved > 0 ? saved / bytes : 0; }
  };
  Worth worth(std::size_t rank) const;
  void toggle(std::size_t rank);

  /// Adds the state that saves most per byte, of those that still fit, until none does; states that
  /// save nothing any more make room. `except`: a rank that is not to be added.
  void fill(double budget, std::int32_t except = -1);
  /// Drops the state that saves least per byte until the rest fits; pinned ones and `except` stay.
  void shed(double budget, std::int32_t except = -1);
  /// Exchanges single states for others as long as that helps. Starts and ends within the budget.
  void exchange(double budget);

  /// Seconds that a byte must save, and that one which is left free counts as saving; 0 at first.
  void set_byte_worth(double worth) { byte_worth_ = worth; }

  const ForestHolds& holds() const { return holds_; }
  double cost() const { return cost_; }
  double bytes() const { return bytes_; }

 private:
  struct Offer {
    double density = 0;  // when it was looked at
    std::int32_t rank = 0;
  };
  std::vector<Offer> offers_to_hold(double budget, std::int32_t except) const;
  bool drop_useless();
  std::vector<Offer> offers_to_drop(std::int32_t except) const;
  bool better_with(std::size_t toggled, double budget, ForestEditor& trial) const;

  const ForestLayout* layout_;
  ForestHolds holds_;
  std::vector<double> served_;
  EdgeNeeds needs_;
  double cost_ = 0;
  double bytes_ = 0;
  double byte_worth_ = 0;
  mutable std::int64_t steps_ = 0;  // of walks towards the root
};

}  // namespace cairn::engine
