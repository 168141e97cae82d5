// SPDX-License-Identifier: Apache-2.0
// The cost model of this machine and model, fitted while it serves.
#pragma once

#include "engine/placement/dp.hpp"

namespace cairn::engine {

/// Least squares of seconds over (tokens, tokens before each of them) of measured prefill steps,
/// older ones forgotten. Owned by one thread.
class CostFit {
 public:
  /// `tokens` rows took `seconds`; `context`: the positions of all rows, summed.
  void add(double tokens, double context, double seconds);
  /// Seconds. a > 0 and b >= 0 once there was a step; both 0 before.
  CostModel fit() const;

 private:
  double tt_ = 0, tc_ = 0, cc_ = 0;  // decayed sums of products
  double ts_ = 0, cs_ = 0;
};

}  // namespace cairn::engine
