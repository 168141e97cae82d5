// SPDX-License-Identifier: Apache-2.0
// Weights as they lie in memory, in one file: what a start reads instead of quantising again.
//
// A safetensors file. Its tensors, in order: "about" (text, a NAME=VALUE a line), "hash" (hash_of),
// all of for_tensor_memory as bytes, and "checksums", a Hash64 for each piece of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "kernels/cpu/packed.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "model/net/config.hpp"
#include "model/net/weights.hpp"

namespace cairn::model {

/// What the file of a model directory must have been made of.
struct WeightsFileKey {
  kernels::WeightFormat format = kernels::WeightFormat::int8;
  std::optional<std::uint64_t> source;  // hash_of_files; none: the model has no other files
};

/// Tells the files of tensors in a directory apart, cheaply: names, sizes, times of change and some
/// hundred kilobytes of content. Nothing when there are none. Throws LoadError.
std::optional<std::uint64_t> hash_of_files(const std::string& directory);

/// Reads with all threads, every byte checked. The error says, for the log, why the file does not
/// serve: made of other files or by another version, damaged, truncated. Never throws LoadError.
Result<std::shared_ptr<const Weights>> read_weights_file(const std::string& path,
                                                         const ModelConfig& config,
                                                         const WeightsFileKey& key,
                                                         kernels::ThreadPool& pool,
                                                         const LoadProgress& progress);

/// Under a temporary name first. Returns its bytes. Throws LoadError when the system refuses.
std::uint64_t write_weights_file(const std::string& path, const Weights& weights,
                                 const WeightsFileKey& key, kernels::ThreadPool& pool,
                                 const LoadProgress& progress);

}  // namespace cairn::model
