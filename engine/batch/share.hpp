// SPDX-License-Identifier: Apache-2.0
// How the rows of a step are shared among prompts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::engine {

/// A prompt's claim: `rows` it could run in this step, `left` until its end.
struct PrefillClaim {
  std::int32_t rows = 0;
  std::int32_t left = 0;
};

/// Splits `budget` rows over prompts given oldest first; shares[i] <= claims[i].rows, and no row
/// is left while somebody could use it. Half of the budget goes to the oldest in turn, the rest by
/// least left: the oldest advances whatever comes behind it, so everyone's turn comes, and short
/// prompts pass long ones, so a giant does not hold them up. Reuses its memory.
class PrefillShare {
 public:
  std::span<const std::int32_t> split(std::span<const PrefillClaim> claims, std::int32_t budget);

 private:
  std::vector<std::int32_t> shares_;
  std::vector<std::int32_t> order_;
};

}  // namespace cairn::engine
