// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/online.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "bench/paper/compare.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/simulate/simulator.hpp"

namespace cairn::paper {
namespace {

struct Entry {
  const char* shown;
  std::string (*spelling)(int states, std::int64_t length);
};

std::string with_count(const char* name, int states) {
  return std::string(name) + ":" + std::to_string(states);
}

constexpr std::array kEntries = {
    Entry{"none", [](int, std::int64_t) { return std::string("none"); }},
    Entry{"kv_only", [](int, std::int64_t) { return std::string("kv_only"); }},
    Entry{"balanced:M", [](int m, std::int64_t) { return with_count("balanced", m); }},
    Entry{"block, M a prompt",
          [](int m, std::int64_t length) {
            return with_count("block", static_cast<int>(length / (m + 1) + 1));
          }},
    Entry{"log:M", [](int m, std::int64_t) { return with_count("log", m); }},
    Entry{"sqrt_spacing", [](int, std::int64_t) { return std::string("sqrt_spacing"); }},
    Entry{"dp:M", [](int m, std::int64_t) { return with_count("dp", m); }},
    Entry{"dp_frac:M", [](int m, std::int64_t) { return with_count("dp_frac", m); }},
    Entry{"forest", [](int, std::int64_t) { return std::string("forest"); }},
};

}  // namespace

std::vector<OnlineRow> replay_online(const Workload& workload, std::int64_t length) {
  const auto trace = engine::chain_trace(workload.requests);
  std::vector<OnlineRow> out;
  for (const Entry& entry : kEntries) {
    OnlineRow& row = out.emplace_back();
    row.policy = entry.shown;
    for (const int states : kBudgets) {
      auto policy = engine::make_cache_policy(entry.spelling(states, length));
      check(policy.ok(), "a policy of the comparison is not known");
      engine::SimulatorOptions options;
      options.costs = {.state_bytes = 1, .kv_bytes_per_token = 0, .kv_block = 1};
      options.bytes = static_cast<std::uint64_t>(states) * kLive;
      row.shares.push_back(engine::simulate(*trace, policy.take(), options).recomputed_share());
    }
  }
  return out;
}

}  // namespace cairn::paper
