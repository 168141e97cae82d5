// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/grid.hpp"

namespace cairn::kernels::cuda {

/// A logit bias (its bits), or an id that was seen (times generated; 0: in the prompt only).
struct SampleEntry {
  std::int32_t id = 0;
  std::uint32_t value = 0;
};

/// How one row is sampled. Lies in device memory, so that a replayed graph finds other values.
struct SampleParams {
  std::int32_t row = -1;          // of the logits; below 0: padding, whose output stays as it is
  std::int32_t adjusted = -1;     // its copy in the scratch; -1: nothing changes its logits
  float inverse_temperature = 0;  // 0: greedy
  std::int32_t top_k = 0;         // 0: all
  std::uint64_t top_p = 0;        // share_fraction
  std::int32_t nucleus = 0;       // whether top_p counts
  float min_p = 0;                // 0: all
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  std::int32_t choice = 0;
  // Ranges of the entries: biases ascending by id (the same id again is added in turn), then ids
  // seen, each once, in any order. Ids outside the vocabulary change nothing.
  std::int32_t bias_begin = 0;
  std::int32_t bias_end = 0;
  std::int32_t seen_begin = 0;
  std::int32_t seen_end = 0;
  float repetition = 1;
  float frequency = 0;
  float presence = 0;
};
static_assert(sizeof(SampleParams) % sizeof(SampleEntry) == 0);

struct Sampled {
  std::int32_t token = 0;
  std::int32_t finite = 0;  // 0: a logit below the vocabulary is infinite or NaN
};

/// What some row of a call needs: its launches depend on this alone. One more than needed does no
/// harm.
struct SamplePlan {
  bool draws = false;         // any row with a temperature
  bool cuts = false;          // any of them with top-k or top-p
  std::int32_t adjusted = 0;  // rows with penalties or biases
};

/// Device memory that calls on one stream share. Its first zero_bytes() are zero before the first
/// call, and every call leaves them so.
struct SampleScratch {
  std::byte* data = nullptr;  // [bytes()], 256-byte aligned
  std::int32_t rows = 0;      // the most of one call, each here
  std::int32_t vocab = 0;
  std::int32_t adjusted = 0;
  std::size_t zero_bytes() const;
  std::size_t bytes() const;
};

struct SampleArgs {
  const float* logits = nullptr;         // [*, ld] fp32, 16-byte aligned; not changed
  std::int64_t ld = 0;                   // a multiple of 4, at least vocab
  std::int32_t vocab = 0;                // ids below it are sampled; at most kMaxSampledVocab
  std::int32_t rows = 0;                 // parameter sets, padding among them
  const SampleParams* params = nullptr;  // [rows]
  const SampleEntry* entries = nullptr;  // what the parameters' ranges index
  SampleScratch scratch;
  SamplePlan plan;
  Sampled* out = nullptr;  // [rows]
};

/// Blocks of each of its launches.
Grid sample_grid(const SampleArgs& args);

/// Samples each row with the token of model::Sampler, whatever the other rows: penalties, biases,
/// temperature, top-k, top-p, min-p and Philox as kernels/sampling.hpp and docs/order.md say. One
/// launch for greedy rows, two when any draws, four when any has top-k or top-p. Device pointers;
/// queued on `stream`, nothing waits. A row that is not finite gets the token that Sampler gives
/// it, too. Throws InvariantError for sizes it does not take, DeviceError when a launch is refused.
void sample(Stream stream, const SampleArgs& args);

}  // namespace cairn::kernels::cuda
