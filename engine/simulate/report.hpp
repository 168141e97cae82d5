// SPDX-License-Identifier: Apache-2.0
// Simulations as people and programs read them. Every function is thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/simulate/simulator_result.hpp"

namespace cairn::engine {

/// One JSON object without a line end: policy, bytes, requests, prompt_tokens, reusable_tokens,
/// recomputed_tokens, recomputed_share (0 to 1), recomputed_cost, states_written, states_dropped,
/// solve_ms_total, gap (null without a certificate).
std::string result_json(const SimulatorResult& result);

/// The policy with the least share recomputed within `bytes`, of equals the one that writes fewer
/// states; the rule that knows the future does not compete. Null when there is none.
const SimulatorResult* strongest(std::span<const SimulatorResult> results, std::uint64_t bytes);

/// Text for a terminal: policies by budgets, percent recomputed and states written a request; the
/// strongest policy of each budget below.
std::string result_table(std::span<const SimulatorResult> results);

struct ReportInfo {
  std::string trace;  // its name
  std::uint64_t state_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;
};

/// One HTML page that needs nothing else: share recomputed over bytes with its Pareto front, the
/// strongest policies, states written, bytes held over the trace, solve time.
std::string result_html(std::span<const SimulatorResult> results, const ReportInfo& info);

/// A budget as somebody would write it: "250 MB", "4 GiB".
std::string budget_label(std::uint64_t bytes);

}  // namespace cairn::engine
