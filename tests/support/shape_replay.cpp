// SPDX-License-Identifier: Apache-2.0
#include "tests/support/shape_replay.hpp"

namespace cairn::testing {

std::vector<TraceRow> read_trace_csv(const std::string& path) {
  const auto trace = engine::read_trace(path);
  std::vector<TraceRow> rows;
  for (std::size_t i = 0; i < trace->size(); ++i) rows.push_back((*trace)[i]);
  return rows;
}

ReplayResult replay(const std::vector<TraceRow>& rows, engine::CachePolicy& policy,
                    std::uint64_t budget, engine::ByteCosts costs) {
  ShapeReplay run(policy, costs, budget);
  for (const TraceRow& row : rows) run.request(row);
  return run.result();
}

}  // namespace cairn::testing
