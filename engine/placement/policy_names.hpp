// SPDX-License-Identifier: Apache-2.0
// The spellings of all policies, and what each makes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

inline constexpr std::int64_t kMaxCheckpoints = 256;        // M
inline constexpr std::int64_t kMaxPolicyBlock = 1'000'000;  // B

/// A policy's spelling, taken apart: RULE, RULE:M, block:B or marconi:ALPHA, and "+branch" after
/// the rules that place states inside a prompt.
struct PolicyName {
  std::string rule;        // before the colon
  std::int64_t count = 0;  // M or B; 0 without one
  double alpha = 0;        // marconi's, as far as it is given
  bool has_argument = false;
  bool branch = false;
};
/// The error lists the spellings.
Result<PolicyName> parse_policy_name(std::string_view spelling);

/// "none, kv_only, balanced:M, ...": for errors and help texts.
std::string policy_spellings();

/// One of each kind, with the parameters that published comparisons use most.
inline constexpr std::array kComparedPolicies = {
    "none",        "kv_only",          "last",       "branch",       "branch_path", "marconi:0",
    "marconi:1",   "marconi:4",        "marconi",    "balanced:4",   "block:512",   "log:4",
    "log_end:4",   "sqrt:4",           "sqrt_end:4", "sqrt_spacing", "dp:4",        "dp_frac:4",
    "dp:4+branch", "dp_frac:4+branch", "forest"};

/// Its name() is the spelling.
Result<std::unique_ptr<CachePolicy>> make_cache_policy(std::string_view spelling);

}  // namespace cairn::engine
