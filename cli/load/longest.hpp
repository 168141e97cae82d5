// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cli/load/asker.hpp"
#include "cli/load/served.hpp"
#include "cli/load/workload.hpp"

namespace cairn::load {

/// Tokens of the longest prompt that a workload comes to, with its answer. Of what is sent as text
/// the server tells how many tokens such a text has; where it cannot, that is left out.
std::int64_t longest(const WorkloadOptions& workload, const AskOptions& ask, const Served& server);

}  // namespace cairn::load
