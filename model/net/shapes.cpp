// SPDX-License-Identifier: Apache-2.0
// Published model sizes by name, and what can be counted from a shape.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/check.hpp"
#include "model/net/config.hpp"

namespace cairn::model {
namespace {

struct Shape {
  std::string_view name;
  std::int32_t vocab, hidden, intermediate, layers;
  std::int32_t heads, kv_heads, head_dim;
  std::int32_t key_heads, value_heads, linear_dim;
  double theta;
  std::int32_t context;
  bool tied;
  std::int32_t eos;
};

constexpr std::array kShapes{
    Shape{"qwen3.5-0.8b", 248320, 1024, 3584, 24, 8, 2, 256, 16, 16, 128, 1e7, 262144, true,
          248044},
    Shape{"qwen3.5-2b", 248320, 2048, 6144, 24, 8, 2, 256, 16, 16, 128, 1e7, 262144, true, 248044},
    Shape{"qwen3.5-4b", 248320, 2560, 9216, 32, 16, 4, 256, 16, 32, 128, 1e7, 262144, true, 248044},
    Shape{"qwen3.5-9b", 248320, 4096, 12288, 32, 16, 4, 256, 16, 32, 128, 1e7, 262144, false,
          248044},
    Shape{"qwen3.5-27b", 248320, 5120, 17408, 64, 24, 4, 256, 16, 48, 128, 1e7, 262144, false,
          248044},
    Shape{"tiny", 128, 64, 96, 4, 4, 2, 32, 2, 4, 16, 1e4, 512, true, 0},
    Shape{"demo", 4096, 256, 512, 4, 2, 1, 256, 1, 2, 128, 1e7, 8192, true, 0},
};

}  // namespace

std::int32_t ModelConfig::full_layers() const {
  return static_cast<std::int32_t>(
      std::count(layers.begin(), layers.end(), LayerKind::full_attention));
}

std::int32_t ModelConfig::linear_layers() const {
  return static_cast<std::int32_t>(layers.size()) - full_layers();
}

std::vector<double> ModelConfig::rope_frequencies() const {
  std::vector<double> frequencies(static_cast<std::size_t>(rotary_dim) / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(rope_theta, -2.0 * static_cast<double>(i) / rotary_dim);
  }
  return frequencies;
}

std::int64_t ModelConfig::parameters() const {
  const std::int64_t h = hidden_size;
  const std::int64_t query = static_cast<std::int64_t>(num_heads) * head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(num_kv_heads) * head_dim;
  const std::int64_t full = 2 * query * h + 2 * kv * h + h * query + 2 * head_dim;
  const std::int64_t values = value_channels();
  const std::int64_t linear = conv_channels() * h + values * h + 2 * linear_value_heads * h +
                              static_cast<std::int64_t>(conv_channels()) * conv_kernel +
                              2 * linear_value_heads + linear_value_dim + h * values;
  const std::int64_t each = 2 * h + 3 * h * intermediate_size;
  const std::int64_t tables = tie_word_embeddings ? 1 : 2;
  return tables * vocab_size * h + h + num_layers * each + full_layers() * full +
         linear_layers() * linear;
}

ModelConfig shape_by_name(std::string_view name) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
  std::string known;
  for (const Shape& s : kShapes) {
    known += (known.empty() ? "" : ", ") + std::string(s.name);
    if (s.name != wanted) continue;
    ModelConfig c;
    c.vocab_size = c.sampled_vocab = s.vocab;
    c.hidden_size = s.hidden;
    c.intermediate_size = s.intermediate;
    c.num_layers = s.layers;
    for (std::int32_t i = 0; i < s.layers; ++i) {
      c.layers.push_back(i % 4 == 3 ? LayerKind::full_attention : LayerKind::linear_attention);
    }
    c.num_heads = s.heads;
    c.num_kv_heads = s.kv_heads;
    c.head_dim = s.head_dim;
    c.rotary_dim = s.head_dim / 4;
    c.rope_theta = s.theta;
    c.linear_key_heads = s.key_heads;
    c.linear_value_heads = s.value_heads;
    c.linear_key_dim = c.linear_value_dim = s.linear_dim;
    c.tie_word_embeddings = s.tied;
    c.max_position_embeddings = s.context;
    c.eos_token_ids = {s.eos};
    return c;
  }
  throw LoadError("Model shape \"" + std::string(name) + "\" is unknown, expected one of " + known +
                  ".");
}

}  // namespace cairn::model
