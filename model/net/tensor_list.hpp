// SPDX-License-Identifier: Apache-2.0
// Every tensor of the text path, once: what the loader looks for and the writer writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/net/config.hpp"

namespace cairn::model {

/// What a tensor is in the forward pass; decides where it goes.
enum class Role : std::uint8_t {
  embedding,      // [V, H]
  head,           // [V, H], untied models only
  final_norm,     // [H]
  input_norm,     // [H]
  post_norm,      // [H]
  mlp_gate,       // [I, H]
  mlp_up,         // [I, H]
  mlp_down,       // [H, I]
  query_gate,     // [2 heads head_dim, H]: per head query rows, then gate rows
  key,            // [kv head_dim, H]
  value,          // [kv head_dim, H]
  attention_out,  // [H, heads head_dim]
  query_norm,     // [head_dim]
  key_norm,       // [head_dim]
  mix_qkv,        // [CD, H]: q, k, v channels
  mix_z,          // [VD, H]
  mix_b,          // [vh, H]
  mix_a,          // [vh, H]
  conv,           // [CD, 1, 4]
  a_log,          // [vh]
  dt_bias,        // [vh]
  mix_norm,       // [dv]
  mix_out,        // [H, VD]
};

struct TensorSpec {
  std::string name;  // after the text prefix; the head has none
  std::vector<std::int64_t> shape;
  Role role = Role::embedding;
  std::int32_t layer = -1;     // -1: global
  bool published_f32 = false;  // else BF16

  bool is_matrix() const { return shape.size() == 2; }
  std::int64_t rows() const { return shape.front(); }
  std::int64_t columns() const;  // elements of a row
  std::int64_t elements() const { return rows() * columns(); }
};

/// In the order of published files.
std::vector<TensorSpec> tensor_list(const ModelConfig& config);

/// Prefix of the text tensors in published files; text-only exports use "model.".
inline constexpr const char* kTextPrefix = "model.language_model.";
inline constexpr const char* kShortPrefix = "model.";

/// A spec's name in a file with that prefix.
std::string file_name_of(const TensorSpec& spec, const std::string& prefix);

}  // namespace cairn::model
