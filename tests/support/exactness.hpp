// SPDX-License-Identifier: Apache-2.0
// The exactness suite: whatever the batch, the split, the threads or the place of a resume, a
// backend gives the same bits. For any backend; compared by memcmp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/net/backend.hpp"
#include "tests/support/exactness_sequence.hpp"

namespace cairn::testing {

struct ExactnessOptions {
  std::uint64_t seed = 1;           // of prompts, splits and positions
  std::int32_t short_tokens = 37;   // states are saved and restored at every position of it
  std::int32_t long_tokens = 643;   // more than one range of 512 keys, an odd last block
  std::int32_t long_positions = 4;  // random places of resumes in the long prompt
  std::int32_t splits = 4;          // random splits of each prompt
};

struct ExactnessReport {
  int checks = 0;
  std::vector<std::string> failures;  // one sentence each
};

/// `make(threads)` makes a backend on the same weights each time, with bf16 keys and values.
using MakeBackend = std::function<std::unique_ptr<model::Backend>(int threads)>;

ExactnessReport check_exactness(const MakeBackend& make, const ExactnessOptions& options = {},
                                const DeviceMemory& memory = host_memory());

/// The suite's own test: adds one unit in the last place to one float of a restored state (to one
/// key when `in_keys`) and reports whether the comparison that must then fail did.
bool detects_one_ulp(const MakeBackend& make, bool in_keys, const ExactnessOptions& options = {},
                     const DeviceMemory& memory = host_memory());

}  // namespace cairn::testing
