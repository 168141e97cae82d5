// SPDX-License-Identifier: Apache-2.0
// What a state copied out within a pass costs, and one copied in, beside the time that the
// machine's own copy of as many bytes takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/live/findings.hpp"

namespace cairn::bench {

struct CopiesOptions {
  std::string model;
  int threads = 0;                                     // 0: physical cores
  std::uint64_t cache_bytes = std::uint64_t{8} << 30;  // room for every save
  int pairs = 10;  // of prompts computed with and without saves, for each kind of memory
  std::int32_t prompt = 64, apart = 4;  // tokens; a save every `apart`
  int restores = 20;
};

/// Seconds of one state. Fresh memory was never written before: its pages come with the first copy.
struct CopiesResult {
  std::size_t state_bytes = 0;
  double states_a_prompt = 0;
  std::vector<double> save_fresh, save_used, restore;  // of each pair, of each restore
  /// memcpy by as many threads as compute (saves), by one (restores).
  double copy_fresh = 0, copy_used = 0, copy_alone = 0;
};

/// Throws LoadError.
CopiesResult measure_copies(const CopiesOptions& options);
Findings findings_of(const CopiesResult& result);

}  // namespace cairn::bench
