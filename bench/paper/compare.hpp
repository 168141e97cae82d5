// SPDX-License-Identifier: Apache-2.0
// The published comparison: M states on one retained prompt, placed by each rule, measured by the
// tokens between where requests leave the prompt and the nearest state above.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/paper/workload.hpp"
#include "engine/placement/dp.hpp"

namespace cairn::paper {

inline constexpr std::array kBudgets = {1, 2, 3, 5, 8, 12, 16, 20, 25, 30};

/// A request that leaves a retained prompt before its end (whose state every rule has).
struct Sample {
  std::int32_t depth = 0;   // tokens shared, 0 < depth < length - 1
  std::int32_t length = 0;  // of the retained prompt, the request's parent
};
std::vector<Sample> partial_overlaps(const Workload& workload);
/// Mean length of the retained prompts, by sample; at least 2.
std::int64_t mean_length(std::span<const Sample> samples);

/// How prompts of different lengths are laid over one another.
enum class Scale : std::uint8_t {
  absolute,  // by position: one prompt as long as the longest
  fraction,  // by share of the prompt: all stretched to the mean length
};
const char* to_string(Scale scale);

/// One prompt of `length` with all samples on it; weights make the cost tokens.
struct Pooled {
  std::int64_t length = 0;
  std::vector<engine::DemandPoint> demand;
  double total = 0;  // cost without any state
};
/// `like`: the samples whose lengths set the scale, so that several pools share one.
Pooled pool(std::span<const Sample> samples, Scale scale, std::span<const Sample> like);

enum class Rule : std::uint8_t { none, kv_only, balanced, block, log, log_end, sqrt_spacing, dp };
inline constexpr std::array kRules = {Rule::none, Rule::kv_only, Rule::balanced,     Rule::block,
                                      Rule::log,  Rule::log_end, Rule::sqrt_spacing, Rule::dp};
const char* to_string(Rule rule);

/// At most `states` positions on a prompt of `length`. dp is fitted to `fit`; the others know only
/// the length. kv_only keeps no state: KV alone saves no layer but the last. sqrt_spacing has the
/// deepest of the multiples of ceil(sqrt(length)).
std::vector<std::int64_t> positions(Rule rule, int states, const Pooled& fit);

/// Cost of the rule fitted to `fit` on `on`, as a share of on.total; 0 when that is 0.
double share(Rule rule, int states, const Pooled& fit, const Pooled& on);

/// The least number of states with which dp recomputes no more than block with `block_states`.
int dp_reaches_block(int block_states, const Pooled& fit, const Pooled& on);

/// Requests whose prompts others leave before the end: each has M states under the rules above.
std::int64_t retained_prompts(const Workload& workload);
/// Requests that share less than half of their prompt with any before: documents, system prompts.
std::int64_t groups(const Workload& workload);

/// Share recomputed by an exact plan of the whole forest of prompts that knows every request: so
/// many states in all, wherever they save most (placement.md section 3, KV free).
std::vector<double> forest_shares(const Workload& workload, std::span<const std::int64_t> states);

}  // namespace cairn::paper
