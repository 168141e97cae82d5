// SPDX-License-Identifier: Apache-2.0
// Expected results of policies on traces, and ours.
#pragma once

#include <string>
#include <vector>

#include "engine/placement/cache_policy.hpp"
#include "engine/simulate/shape_replay.hpp"
#include "engine/simulate/trace.hpp"

namespace cairn::bench {

struct TableCell {
  std::string policy, trace;
  double gigabytes = 0;  // of 1e9 bytes
  double percent = 0;    // of the reusable tokens, recomputed
};

/// Columns policy,trace,gb,percent of a CSV file. Throws LoadError.
std::vector<TableCell> read_policy_table(const std::string& path);

/// The whole trace at the sizes of Qwen3.5-0.8B's smallest state: 19.5e6 bytes a state, 12,288
/// bytes of KV a token. A fresh policy.
engine::ReplayResult replay_trace(const engine::Trace& trace, engine::CachePolicy& policy,
                                  double gigabytes);

/// The cell's trace under its policy and budget. Throws LoadError for an unknown policy.
engine::ReplayResult replay_cell(const TableCell& cell, const engine::Trace& trace);

}  // namespace cairn::bench
