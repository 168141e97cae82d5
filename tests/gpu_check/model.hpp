// SPDX-License-Identifier: Apache-2.0
// A random model behind model::Backend, for the parts that run all of it.
#pragma once

#include <memory>
#include <vector>

#include "model/net/backend.hpp"
#include "tests/model/net_cuda/device_memory.hpp"
#include "tests/support/exactness_sequence.hpp"

namespace cairn::gpu_check {

/// Qwen3.5-0.8B; in a dry run two layers of almost nothing.
const model::ModelConfig& served_model();
std::shared_ptr<const model::Weights> served_weights();

/// What a measured backend has room for.
struct ServedSizes {
  std::int32_t chunk;    // rows of a step that prefills
  std::int32_t slices;   // sequences of a step
  std::int32_t context;  // positions of a sequence
  std::size_t arena;     // bytes
};
ServedSizes served_sizes();

/// One backend and the memory of its sequences, which must go first.
class Served {
 public:
  Served(std::shared_ptr<const model::Weights> weights, const model::CudaOptions& options);

  model::Backend& backend() { return *backend_; }
  model::Arena& arena() { return memory_->arena(); }
  const testing::DeviceMemory& memory() const { return interface_; }
  std::unique_ptr<testing::DrivenSequence> new_sequence();

  /// Runs the tokens in chunks; the last row's token is sampled, and waited for.
  void prefill(testing::DrivenSequence& sequence, std::span<const std::int32_t> tokens,
               std::span<const model::SavePoint> saves = {});
  /// One more token of each sequence, sampled greedily and waited for.
  void decode(std::span<const std::unique_ptr<testing::DrivenSequence>> sequences);

 private:
  /// Rows 0 .. rows - 1 of the step's logits.
  void sample(std::int32_t rows);

  std::unique_ptr<model::Backend> backend_;
  std::shared_ptr<testing::ArenaMemory> memory_;
  testing::DeviceMemory interface_;
  model::SamplingParams greedy_;
  std::vector<model::SampleRow> wanted_;
  std::vector<model::SampledRow> sampled_;
};

/// Options for served_sizes().
model::CudaOptions served_options();

std::vector<std::int32_t> random_tokens(std::int32_t count, std::uint32_t seed);

}  // namespace cairn::gpu_check
