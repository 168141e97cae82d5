// SPDX-License-Identifier: Apache-2.0
// Whole traces on the plan tree alone, at the sizes of the published tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/simulate/shape_replay.hpp"

namespace cairn::testing {

using engine::ReplayResult;
using engine::ShapeReplay;
using TraceRow = engine::TraceRequest;  // length, overlap, parent

/// The requests of a trace file with stated overlaps. Throws LoadError.
std::vector<TraceRow> read_trace_csv(const std::string& path);

/// The whole trace under one policy.
ReplayResult replay(const std::vector<TraceRow>& rows, engine::CachePolicy& policy,
                    std::uint64_t budget,
                    engine::ByteCosts costs = {.state_bytes = 19'500'000,
                                               .kv_bytes_per_token = 12'288});

}  // namespace cairn::testing
