// SPDX-License-Identifier: Apache-2.0
// What simulate() answers: one policy on one trace within one budget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::engine {

struct SimulatorResult {
  std::string policy;       // its spelling
  std::uint64_t bytes = 0;  // the budget, states and KV together

  std::int64_t requests = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t reusable_tokens = 0;    // overlap with any earlier prompt, at most n - 1 of each
  std::int64_t recomputed_tokens = 0;  // of those
  double reusable_cost = 0, recomputed_cost = 0;  // the same by the cost model's F
  std::int64_t states_written = 0;
  std::int64_t states_dropped = 0;  // once written
  double solve_ms_total = 0;        // of the policy and its planner
  std::optional<double> gap;        // of the last certified plan, in cost; none without one

  /// Bytes held after a request; evenly spaced over the trace, a few hundred.
  struct Held {
    std::int64_t request = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Held> held;

  /// Of the reusable tokens, 0 to 1; 0 where nothing is reusable.
  double recomputed_share() const {
    return reusable_tokens == 0
               ? 0
               : static_cast<double>(recomputed_tokens) / static_cast<double>(reusable_tokens);
  }
};

}  // namespace cairn::engine
