// SPDX-License-Identifier: Apache-2.0
// Weights as they lie in memory, in one file: what a start reads instead of quantising again.
//
// A safetensors file. Its tensors, in order: "about" (text, a NAME=VALUE a line), "hash" (hash_of),
// all of for_tensor_memory as bytes, and "checksums", a Hash64 for each piece of the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "kernels/cpu/packed.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "model/net/config.hpp"
#include "model/net/new_file.hpp"
#include "model/net/weights.hpp"

namespace cairn::model {

/// The files of tensors in a model directory, told apart cheaply.
struct SourceFiles {
  std::uint64_t hash = 0;  // of names, sizes and some hundred kilobytes of content
  std::filesystem::file_time_type newest = std::filesystem::file_time_type::min();
};

/// Of those that a load reads (Checkpoint::files_in). Nothing when there are none. Throws
/// LoadError.
std::optional<SourceFiles> look_at_files(const std::string& directory);

/// What the file of a model directory must have been made of.
struct WeightsFileKey {
  kernels::WeightFormat format = kernels::WeightFormat::int8;
  std::optional<SourceFiles> source;  // none: the model has no other files
};

/// Reads with all threads, every byte checked. The error says, for the log, why the file does not
/// serve: made of other files or by another version, damaged, truncated. Never throws LoadError.
Result<std::shared_ptr<const Weights>> read_weights_file(const std::string& path,
                                                         const ModelConfig& config,
                                                         const WeightsFileKey& key,
                                                         kernels::ThreadPool& pool,
                                                         const LoadProgress& progress);

/// Writes and commits `file`. Returns its bytes. Throws LoadError when the system refuses.
std::uint64_t write_weights_file(NewFile& file, const Weights& weights, const WeightsFileKey& key,
                                 kernels::ThreadPool& pool, const LoadProgress& progress);

/// True for files that write_weights_file began, damaged ones included where they tell what they
/// are, and for empty ones.
bool may_be_weights_file(const std::string& path);

}  // namespace cairn::model
