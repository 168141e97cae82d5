// SPDX-License-Identifier: Apache-2.0
// What every backend asks of a step before it touches anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "model/net/backend.hpp"

namespace cairn::model {

/// What a backend takes.
struct StepLimits {
  std::int32_t vocab = 0;
  std::int32_t rows = 0;  // of all slices
  std::int32_t slices = std::numeric_limits<std::int32_t>::max();
  std::int32_t context = std::numeric_limits<std::int32_t>::max();  // positions of a sequence
  std::size_t kv_alignment = 64;    // of blocks, bytes; a power of two
  std::size_t state_alignment = 1;  // of running and saved states
  // Where blocks and states lie: anywhere when `memory` is empty.
  std::span<const std::byte> memory{};
};

/// Throws InvariantError for a step that is malformed or beyond the limits.
void check_step(std::span<const StepSlice> slices, const StepLimits& limits);

/// Rows whose logits the slices ask for.
std::int64_t wanted_logits(std::span<const StepSlice> slices);

}  // namespace cairn::model
