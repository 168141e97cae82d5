// SPDX-License-Identifier: Apache-2.0
// Rows to be sampled as a device takes them: parameters and lists in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/sampling.hpp"
#include "model/net/backend.hpp"

namespace cairn::model {

struct SamplingBatch {
  kernels::cuda::SamplePlan plan;
  std::size_t bytes = 0;  // written
};

/// Bytes that pack_sampling may write for these rows.
std::size_t sampling_batch_bytes(std::span<const SampleRow> rows, std::int32_t slots);

/// Writes [slots] SampleParams, in order of `rows` and padded behind them, and then the
/// SampleEntry that they index: SampleArgs::params is the start of the copy on the device and
/// SampleArgs::entries comes `slots` params later. `vocab` as in Backend::sample. `to` is 8-byte
/// aligned. Allocates nothing. Throws InvariantError when there are more rows than slots or `to` is
/// too short. Thread-safe.
SamplingBatch pack_sampling(std::span<const SampleRow> rows, std::int32_t slots, std::int32_t vocab,
                            std::span<std::byte> to);

}  // namespace cairn::model
