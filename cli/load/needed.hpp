// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "cli/load/exact_cache.hpp"
#include "cli/load/record.hpp"

namespace cairn::load {

/// Fills `needed` in where the prompt's tokens are known, for a cache that saw the same requests
/// at the same times: prompts from when they were sent, so that it shares them while they are
/// computed, and answers from when they ended, but for the last token, which nothing was computed
/// from. What failed is not counted on.
void count_needed(std::span<Record> records, ExactCache& cache);

}  // namespace cairn::load
