// SPDX-License-Identifier: Apache-2.0
// The same rules as policies that know nothing ahead, through the simulator.
#pragma once

#include <string>
#include <vector>

#include "bench/paper/workload.hpp"

namespace cairn::paper {

struct OnlineRow {
  std::string policy;          // M stands for the budget
  std::vector<double> shares;  // of the reusable tokens recomputed, 0 to 1, by kBudgets
};

/// Each policy within M * kLive states in all, ends included, KV free: M for
/// every group that is live. `length` sets the blocks of block:B, of which M
/// cover a prompt.
std::vector<OnlineRow> replay_online(const Workload& workload, std::int64_t length);

}  // namespace cairn::paper
