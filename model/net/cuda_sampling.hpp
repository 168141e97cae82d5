// SPDX-License-Identifier: Apache-2.0
// Samples rows of logits where they are, and brings back the tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/sampling.hpp"
#include "model/net/backend.hpp"

namespace cairn::model {

/// Not thread-safe.
class CudaSampling {
 public:
  /// Takes `rows` rows at a time, of up to `vocab` ids. Throws DeviceError.
  CudaSampling(int device, std::int32_t rows, std::int32_t vocab,
               kernels::cuda::WorkStream& stream);
  /// Bytes that the constructor will ask of the device.
  static std::size_t bytes(std::int32_t rows, std::int32_t vocab);

  /// Backend::sample on `logits` [*, ld]: queues, waits for the stream and appends to `out`. Memory
  /// grows with the lists of ids seen, by powers of two.
  void sample(std::span<const SampleRow> rows, std::int32_t vocab, const float* logits,
              std::int64_t ld, std::vector<SampledRow>& out);

 private:
  void sample_some(std::span<const SampleRow> rows, std::int32_t vocab, const float* logits,
                   std::int64_t ld, std::vector<SampledRow>& out);
  void reserve(std::size_t bytes);

  int device_;
  kernels::cuda::WorkStream& stream_;
  kernels::cuda::SampleScratch scratch_;
  kernels::cuda::DeviceBuffer scratch_memory_, tables_, sampled_;
  kernels::cuda::PinnedBuffer host_tables_, host_sampled_;
};

}  // namespace cairn::model
