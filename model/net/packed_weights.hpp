// SPDX-License-Identifier: Apache-2.0
// The tensors behind weights.hpp's opaque type; for backends and the loader only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu/packed.hpp"
#include "model/net/config.hpp"
#include "model/net/tensor_list.hpp"

namespace cairn::model {

/// One layer. Weights that read the same input share a matrix, so that a step passes over its rows
/// once.
struct LayerWeights {
  LayerKind kind = LayerKind::linear_attention;
  std::vector<float> input_norm;  // [H], 1 + w is applied
  std::vector<float> post_norm;   // [H]
  kernels::PackedMatrix in;     // full: [query_gate | key | value, H]; linear: [qkv | z | b | a, H]
  kernels::PackedMatrix gates;  // linear, integer formats: [b | a, H] in bf16, and not in `in`
  kernels::PackedMatrix out;    // [H, heads head_dim] or [H, VD]
  kernels::PackedMatrix gate_up;  // [gate | up, H]
  kernels::PackedMatrix down;     // [H, I]
  // full attention
  std::vector<float> query_norm;  // [head_dim]
  std::vector<float> key_norm;    // [head_dim]
  // linear attention
  std::vector<float> conv;      // [4, CD]: tap-major, the kernel's order
  std::vector<float> a_log;     // [vh]
  std::vector<float> dt_bias;   // [vh]
  std::vector<float> mix_norm;  // [dv], plain multiplier
};

/// A loaded model. Filled by WeightsBuilder, immutable afterwards, then readable from any thread.
class Weights {
 public:
  ModelConfig config;
  kernels::WeightFormat format = kernels::WeightFormat::bf16;  // of all matrices but `gates`
  std::vector<LayerWeights> layers;
  kernels::PackedMatrix head;       // [V, H]; also the embedding when tied
  kernels::PackedMatrix embedding;  // [V, H], untied models only
  std::vector<float> final_norm;    // [H]
  std::uint64_t hash = 0;           // of the tensors before any rounding to integers

  const kernels::PackedMatrix& embedding_table() const {
    return config.tie_word_embeddings ? head : embedding;
  }
};

/// A model with the memory of all its tensors, nothing filled in. Throws std::bad_alloc.
std::shared_ptr<Weights> empty_weights(const ModelConfig& config, kernels::WeightFormat format);

/// All that the tensors of `weights` take, in a fixed order: fn(name, span of bytes). Constant
/// weights give constant bytes.
template <class W, class F>
void for_tensor_memory(W& weights, F&& fn) {
  const auto vector = [&](const std::string& name, auto& values) {
    if constexpr (std::is_const_v<W>) {
      fn(name, std::as_bytes(std::span(values)));
    } else {
      fn(name, std::as_writable_bytes(std::span(values)));
    }
  };
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    auto& layer = weights.layers[i];
    const std::string at = "layers." + std::to_string(i) + ".";
    fn(at + "in", layer.in.memory());
    fn(at + "gates", layer.gates.memory());
    fn(at + "out", layer.out.memory());
    fn(at + "gate_up", layer.gate_up.memory());
    fn(at + "down", layer.down.memory());
    vector(at + "input_norm", layer.input_norm);
    vector(at + "post_norm", layer.post_norm);
    vector(at + "query_norm", layer.query_norm);
    vector(at + "key_norm", layer.key_norm);
    vector(at + "conv", layer.conv);
    vector(at + "a_log", layer.a_log);
    vector(at + "dt_bias", layer.dt_bias);
    vector(at + "mix_norm", layer.mix_norm);
  }
  fn("head", weights.head.memory());
  fn("embedding", weights.embedding.memory());
  vector("final_norm", weights.final_norm);
}

/// Running 64-bit hash of a byte stream, 8 bytes at a time; how the stream is cut does not matter.
/// Not for adversaries: it tells models apart, not forgeries.
class Hash64 {
 public:
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  static std::uint64_t mix(std::uint64_t h, std::uint64_t w) {
    h = (h ^ w) * 0x9E3779B97F4A7C15ULL;
    return h ^ (h >> 32);
  }
  std::uint64_t h_ = 0xCBF29CE484222325ULL;
  std::uint64_t length_ = 0;       // bytes so far
  unsigned char pending_[8] = {};  // the last length_ % 8 of them
};

/// hash_of: of names, shapes and values, whatever becomes of them. Rows in any order, by any
/// thread.
class TensorHash {
 public:
  /// Rows [begin, begin + rows) of a matrix.
  void add_rows(const TensorSpec& spec, std::int64_t begin, std::int64_t rows,
                const Bf16* source);  // [rows, columns] bf16
  /// A whole vector or the convolution.
  void add_vector(const TensorSpec& spec, const std::vector<float>& values);
  std::uint64_t value() const { return sum_.load(); }

 private:
  void add(const TensorSpec& spec, std::int64_t row, const void* data, std::size_t bytes);
  std::atomic<std::uint64_t> sum_{0};  // over rows
};

/// Puts tensors where they belong and hashes what it was given. Every tensor of tensor_list() in
/// that order, rows ascending. Not thread-safe. Throws std::bad_alloc.
class WeightsBuilder {
 public:
  explicit WeightsBuilder(const ModelConfig& config,
                          kernels::WeightFormat format = kernels::WeightFormat::bf16);

  /// Rows [begin, begin + rows) of a matrix.
  void add_rows(const TensorSpec& spec, std::int64_t begin, std::int64_t rows,
                const Bf16* source);  // [rows, columns] bf16
  /// A whole vector or the convolution.
  void add_vector(const TensorSpec& spec, const std::vector<float>& values);

  std::shared_ptr<const Weights> finish();

 private:
  struct Place {
    kernels::PackedMatrix* matrix = nullptr;
    std::int64_t first_row = 0;
  };
  Place place_of(const TensorSpec& spec);

  std::shared_ptr<Weights> weights_;
  TensorHash hash_;
};

/// Bytes that WeightsBuilder takes for matrices.
std::uint64_t packed_bytes(const ModelConfig& config, kernels::WeightFormat format);

}  // namespace cairn::model
