// SPDX-License-Identifier: Apache-2.0
// Shapes and constants of one Qwen3.5 text model, as its config.json gives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::model {

enum class LayerKind : std::uint8_t { linear_attention, full_attention };

struct ModelConfig {
  std::int32_t vocab_size = 0;  // rows of the embedding, padding included
  std::int32_t sampled_vocab =
      0;  // ids below this may be produced; set from the tokenizer, else vocab_size
  std::int32_t hidden_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t num_layers = 0;
  std::vector<LayerKind> layers;  // [num_layers]
  std::int32_t num_heads = 0;     // query heads of full attention
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t rotary_dim = 0;  // leading dims of a head that RoPE turns
  double rope_theta = 1e7;
  std::int32_t linear_key_heads = 0;
  std::int32_t linear_value_heads = 0;
  std::int32_t linear_key_dim = 0;  // of one head
  std::int32_t linear_value_dim = 0;
  std::int32_t conv_kernel = 4;  // taps
  float rms_norm_eps = 1e-6F;
  bool tie_word_embeddings = false;
  std::int32_t max_position_embeddings = 0;
  std::vector<std::int32_t> eos_token_ids;  // config and generation_config together

  std::int32_t key_channels() const { return linear_key_heads * linear_key_dim; }
  std::int32_t value_channels() const { return linear_value_heads * linear_value_dim; }
  std::int32_t conv_channels() const { return 2 * key_channels() + value_channels(); }
  std::int32_t full_layers() const;
  std::int32_t linear_layers() const;
  std::vector<double> rope_frequencies() const;  // [rotary_dim / 2] radians a position
  std::int64_t parameters() const;               // text path, tied embedding once
};

/// Parses config.json (`text_config` nested or flat). `file` is the name used in errors.
/// Throws LoadError naming file, field and expectation; MoE and unknown layer types are refused.
ModelConfig parse_model_config(std::string_view json, const std::string& file);

/// Adds the eos ids of a generation_config.json. Throws LoadError like parse_model_config.
void add_generation_config(std::string_view json, const std::string& file, ModelConfig& config);

/// The config.json that parse_model_config reads back as `config`.
std::string write_model_config(const ModelConfig& config);

/// "qwen3.5-0.8b", "-2b", "-4b", "-9b", "-27b", "tiny", "demo": published shapes. Throws LoadError
/// with the list.
ModelConfig shape_by_name(std::string_view name);

}  // namespace cairn::model
