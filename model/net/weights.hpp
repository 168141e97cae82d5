// SPDX-License-Identifier: Apache-2.0
// A model's tensors in the form the forward pass reads them: matrices packed for the GEMM, vectors
// in fp32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "model/net/config.hpp"
#include "model/net/safetensors.hpp"

namespace cairn::model {

class Weights;

/// Called on the loading thread as tensors are read.
using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

/// Reads config.json, generation_config.json (optional: its eos ids are added) and the tensors of a
/// model directory. Throws LoadError naming file, tensor and expectation.
std::shared_ptr<const Weights> load_weights(const std::string& directory,
                                            const LoadProgress& progress = {});

/// The same from files in memory (names without folder). They may go once this returns.
std::shared_ptr<const Weights> load_weights(std::span<const MemoryFile> files,
                                            const LoadProgress& progress = {});

/// Weights drawn from `seed`, scaled so that activations keep their size from layer to layer: what
/// write_model_directory(config, seed, ...) writes and load_weights reads back, bit for bit.
std::shared_ptr<const Weights> random_weights(const ModelConfig& config, std::uint64_t seed);

/// Writes config.json and model.safetensors (names and types as published) with random weights,
/// each file under a temporary name first. Streams: needs memory for one tensor. Throws LoadError
/// when the directory or disk refuses.
void write_model_directory(const ModelConfig& config, std::uint64_t seed,
                           const std::string& directory, const LoadProgress& progress = {});

/// What an engine needs to know of loaded weights besides running them.
const ModelConfig& config_of(const Weights& weights);
/// 64-bit hash of names, shapes and values of every tensor used: part of the fingerprint of stored
/// states.
std::uint64_t hash_of(const Weights& weights);

}  // namespace cairn::model
