// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/model.hpp"

#include <algorithm>
#include <random>

#include "model/net/weights.hpp"
#include "tests/gpu_check/parts.hpp"
#include "tests/gpu_check/shapes.hpp"
#include "tests/gpu_check/timing.hpp"
#include "tests/model/net_cuda/small_model.hpp"

namespace cairn::gpu_check {

const model::ModelConfig& served_model() {
  static const model::ModelConfig config = kDryRun ? testing::small_shape() : measured_model();
  return config;
}

std::shared_ptr<const model::Weights> served_weights() {
  static const auto weights = model::random_weights(served_model(), 1);
  return weights;
}

ServedSizes served_sizes() {
  if (kDryRun) return {16, 2, 64, 4 << 20};
  return {2048, 128, 34 * 1024, std::size_t{8} << 30};
}

model::CudaOptions served_options() {
  const ServedSizes sizes = served_sizes();
  model::CudaOptions options;
  options.device = kDevice;
  options.max_step_tokens = sizes.chunk;
  options.max_slices = sizes.slices;
  options.context_length = sizes.context;
  return options;
}

std::vector<std::int32_t> random_tokens(std::int32_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> any(0, served_model().vocab_size - 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = any(random);
  return tokens;
}

Served::Served(std::shared_ptr<const model::Weights> weights, const model::CudaOptions& options)
    : backend_(model::make_cuda_backend(std::move(weights), options)),
      memory_(std::make_shared<testing::ArenaMemory>(served_sizes().arena, false)) {
  memory_->serve(*backend_);
  interface_ = memory_->interface();
  greedy_.temperature = 0;
}

std::unique_ptr<testing::DrivenSequence> Served::new_sequence() {
  return std::make_unique<testing::DrivenSequence>(*backend_, interface_);
}

void Served::sample(std::int32_t rows) {
  wanted_.clear();
  for (std::int32_t row = 0; row < rows; ++row) wanted_.push_back({row, &greedy_, nullptr, 0, 0});
  if (!backend_->sample(wanted_, served_model().sampled_vocab, sampled_)) backend_->read_logits();
}

void Served::prefill(testing::DrivenSequence& sequence, std::span<const std::int32_t> tokens,
                     std::span<const model::SavePoint> saves) {
  while (!tokens.empty()) {
    const auto rows = std::min(tokens.size(), static_cast<std::size_t>(served_sizes().chunk));
    const bool is_last = rows == tokens.size();
    const std::int32_t end = sequence.position() + static_cast<std::int32_t>(rows);
    const auto due = std::find_if(saves.begin(), saves.end(),
                                  [&](const model::SavePoint& s) { return s.position > end; });
    const auto count = static_cast<std::size_t>(due - saves.begin());
    const model::StepSlice slice = sequence.slice(
        tokens.first(rows), is_last ? static_cast<std::int32_t>(rows) - 1 : -1, saves.first(count));
    backend_->step({&slice, 1});
    sequence.advance();
    tokens = tokens.subspan(rows);
    saves = saves.subspan(count);
  }
  sample(1);
}

void Served::decode(std::span<const std::unique_ptr<testing::DrivenSequence>> sequences) {
  static const std::int32_t token = 1;
  std::vector<model::StepSlice> slices;
  for (const auto& sequence : sequences) slices.push_back(sequence->slice({&token, 1}, 0));
  backend_->step(slices);
  for (const auto& sequence : sequences) sequence->advance();
  sample(static_cast<std::int32_t>(sequences.size()));
}

}  // namespace cairn::gpu_check
