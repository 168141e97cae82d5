// SPDX-License-Identifier: Apache-2.0
// A model's tensors in the form the forward pass reads them: matrices packed for the GEMM, vectors
// in fp32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cpu/packed.hpp"
#include "model/net/config.hpp"
#include "model/net/safetensors.hpp"

namespace cairn::model {

class Weights;

/// Called on the loading thread as tensors are read.
using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

struct LoadOptions {
  /// Of projections, embedding and head. The gates of recurrent layers stay bf16, vectors fp32.
  kernels::WeightFormat format = kernels::WeightFormat::bf16;
  /// Integer formats: the file that keeps what was quantised for the next load; "": none does.
  std::string cache_file;
  /// A cache file that cannot be begun is an error before anything is read, not a warning.
  bool cache_needed = false;
  LoadProgress progress{};        // tensors, or the cache file, read and packed
  LoadProgress store_progress{};  // the cache file written
};

/// Reads config.json, generation_config.json (optional: its eos ids are added) and the tensors of a
/// model directory. A cache file that was made of them is read instead; any other is made anew,
/// with a line in the log. One that cannot be written is a warning, or as cache_needed says. Throws
/// LoadError naming file, tensor and expectation.
std::shared_ptr<const Weights> load_weights(const std::string& directory,
                                            const LoadOptions& options = {});

/// The same from files in memory (names without folder), without a cache file. They may go once
/// this returns.
std::shared_ptr<const Weights> load_weights(std::span<const MemoryFile> files,
                                            const LoadOptions& options = {});

/// Makes the cache file, also where there is one, and returns its bytes. Throws LoadError; that it
/// cannot be written, or that a file of another kind lies in its place, before tensors are read.
std::uint64_t write_weights_cache(const std::string& directory, const LoadOptions& options);

/// Where a model directory's weights of an integer format are kept: beside the model ("auto"),
/// nowhere ("off": ""), or in a directory under a name that tells model directories apart.
std::string weights_cache_file(const std::string& directory, kernels::WeightFormat format,
                               const std::string& place);

/// Weights drawn from `seed`, scaled so that activations keep their size from layer to layer: what
/// write_model_directory(config, seed, ...) writes and load_weights reads back, bit for bit.
std::shared_ptr<const Weights> random_weights(
    const ModelConfig& config, std::uint64_t seed,
    kernels::WeightFormat format = kernels::WeightFormat::bf16);

/// Writes config.json and model.safetensors (names and types as published) with random weights,
/// each file under a temporary name first. Streams: needs memory for one tensor. Throws LoadError
/// when the directory or disk refuses.
void write_model_directory(const ModelConfig& config, std::uint64_t seed,
                           const std::string& directory, const LoadProgress& progress = {});

/// What an engine needs to know of loaded weights besides running them.
const ModelConfig& config_of(const Weights& weights);
/// 64-bit hash of names, shapes and values of every tensor used, before any rounding to integers:
/// part of the fingerprint of stored states, beside the format.
std::uint64_t hash_of(const Weights& weights);
kernels::WeightFormat format_of(const Weights& weights);
/// "bf16", "int8/128": format and values of k that share a scale.
std::string format_name(kernels::WeightFormat format);
/// What "bf16", "int8" and "int4" name; nothing for other spellings.
std::optional<kernels::WeightFormat> format_named(std::string_view name);
/// Bytes of the matrices that one decoded token is multiplied with.
std::uint64_t matrix_bytes(const Weights& weights);

}  // namespace cairn::model
