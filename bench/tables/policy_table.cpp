// SPDX-License-Identifier: Apache-2.0
#include "bench/tables/policy_table.hpp"

#include <fstream>
#include <sstream>
#include <utility>

#include "base/check.hpp"
#include "engine/placement/policy_names.hpp"

namespace cairn::bench {

std::vector<TableCell> read_policy_table(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line) || line != "policy,trace,gb,percent") {
    throw LoadError(path + ": expected the header policy,trace,gb,percent");
  }
  std::vector<TableCell> cells;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    TableCell cell;
    char comma = 0;
    const bool named =
        std::getline(fields, cell.policy, ',') && std::getline(fields, cell.trace, ',');
    if (!named || !(fields >> cell.gigabytes >> comma >> cell.percent)) {
      throw LoadError(path + ": cannot read '" + line + "'");
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

engine::ReplayResult replay_trace(const engine::Trace& trace, engine::CachePolicy& policy,
                                  double gigabytes) {
  return engine::replay(trace, policy, {.state_bytes = 19'500'000, .kv_bytes_per_token = 12'288},
                        static_cast<std::uint64_t>(gigabytes * 1e9));
}

engine::ReplayResult replay_cell(const TableCell& cell, const engine::Trace& trace) {
  auto policy = engine::make_cache_policy(cell.policy);
  if (!policy.ok()) throw LoadError(policy.error().message);
  return replay_trace(trace, **policy, cell.gigabytes);
}

}  // namespace cairn::bench
