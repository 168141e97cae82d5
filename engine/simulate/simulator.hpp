// SPDX-License-Identifier: Apache-2.0
// A trace through the server's own prefix cache, forest and policy, with an executor that computes
// nothing and finishes at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "engine/placement/cache_policy.hpp"
#include "engine/simulate/simulator_result.hpp"
#include "engine/simulate/trace.hpp"
#include "model/net/memory_layout.hpp"

namespace cairn::engine {

/// What became of one request.
struct SimulatedRequest {
  std::size_t index = 0;
  std::int32_t length = 0;
  std::int32_t reusable = 0;  // tokens shared with an earlier prompt, at most length - 1
  std::int32_t resume = 0;    // of these, not recomputed
  std::int64_t stored = 0, dropped = 0, skipped = 0;  // states; so far, this request included
};

struct SimulatorOptions {
  std::uint64_t bytes = 0;  // budget of states and KV together; 0: none
  ByteCosts costs{.state_bytes = 19'500'000, .kv_bytes_per_token = 12'288, .kv_block = 1};
  PolicyCosts policy_costs{.write = kWriteTokens};  // the cost model that stands for the device
  std::int32_t plan_lag = 0;                        // requests between a plan and its use
  /// As a server with memory of these sizes: `bytes` hold the running request, too, KV is charged
  /// by the block (`costs` are not looked at), and the end of each answer, of one token, is kept.
  std::optional<model::MemoryLayout> server = {};
  /// Paths idle for longer are forgotten. By default none is: what a policy is worth is compared
  /// with all it could know; servers forget (PrefixOptions), which some policies even gain from.
  std::uint64_t idle_requests = std::numeric_limits<std::uint64_t>::max();
  std::function<void(const SimulatedRequest&)> each;  // called after every request
};

/// One request after the other. A policy whose name asks for a planner gets one, fed with every
/// request and solved whenever it is due. No memory of states or KV is touched. Deterministic but
/// for the times. Throws InvariantError when the parts disagree.
SimulatorResult simulate(const Trace& trace, std::unique_ptr<CachePolicy> policy,
                         const SimulatorOptions& options);

}  // namespace cairn::engine
