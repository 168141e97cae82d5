// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/shapes.hpp"

#include "tests/gpu_check/parts.hpp"

namespace cairn::gpu_check {

const model::ModelConfig& measured_model() {
  static const model::ModelConfig config = model::shape_by_name(kDryRun ? "tiny" : "qwen3.5-0.8b");
  return config;
}

std::int64_t WeightShape::most_rows() const {
  if (kDryRun) return is_head ? 16 : 64;
  return is_head ? 256 : 2048;
}

std::vector<WeightShape> weight_shapes() {
  const model::ModelConfig& c = measured_model();
  const std::int64_t hidden = c.hidden_size;
  const std::int64_t heads = std::int64_t{c.num_heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.num_kv_heads} * c.head_dim;
  const std::int64_t recurrent =
      c.conv_channels() + c.value_channels() + 2 * std::int64_t{c.linear_value_heads};
  return {{"recurrent in", recurrent, hidden, false},
          {"attention in", 2 * heads + 2 * kv, hidden, false},
          {"recurrent out", hidden, c.value_channels(), false},
          {"gate and up", 2 * std::int64_t{c.intermediate_size}, hidden, false},
          {"down", hidden, c.intermediate_size, false},
          {"head", c.vocab_size, hidden, true}};
}

}  // namespace cairn::gpu_check
