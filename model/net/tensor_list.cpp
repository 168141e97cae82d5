// SPDX-License-Identifier: Apache-2.0
#include "model/net/tensor_list.hpp"

#include <functional>
#include <numeric>

namespace cairn::model {
namespace {

void add_mixer(const ModelConfig& c, std::int32_t layer, const std::string& p,
               std::vector<TensorSpec>& out) {
  const std::int64_t h = c.hidden_size;
  const std::int64_t query = static_cast<std::int64_t>(c.num_heads) * c.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(c.num_kv_heads) * c.head_dim;
  const std::int64_t vh = c.linear_value_heads;
  const std::int64_t cd = c.conv_channels();
  const std::int64_t vd = c.value_channels();
  if (c.layers[static_cast<std::size_t>(layer)] == LayerKind::full_attention) {
    const std::string q = p + "self_attn.";
    out.push_back({q + "q_proj.weight", {2 * query, h}, Role::query_gate, layer});
    out.push_back({q + "k_proj.weight", {kv, h}, Role::key, layer});
    out.push_back({q + "v_proj.weight", {kv, h}, Role::value, layer});
    out.push_back({q + "o_proj.weight", {h, query}, Role::attention_out, layer});
    out.push_back({q + "q_norm.weight", {c.head_dim}, Role::query_norm, layer});
    out.push_back({q + "k_norm.weight", {c.head_dim}, Role::key_norm, layer});
    return;
  }
  const std::string q = p + "linear_attn.";
  out.push_back({q + "in_proj_qkv.weight", {cd, h}, Role::mix_qkv, layer});
  out.push_back({q + "in_proj_z.weight", {vd, h}, Role::mix_z, layer});
  out.push_back({q + "in_proj_b.weight", {vh, h}, Role::mix_b, layer});
  out.push_back({q + "in_proj_a.weight", {vh, h}, Role::mix_a, layer});
  out.push_back({q + "conv1d.weight", {cd, 1, c.conv_kernel}, Role::conv, layer});
  out.push_back({q + "A_log", {vh}, Role::a_log, layer, true});
  out.push_back({q + "dt_bias", {vh}, Role::dt_bias, layer});
  out.push_back({q + "norm.weight", {c.linear_value_dim}, Role::mix_norm, layer, true});
  out.push_back({q + "out_proj.weight", {h, vd}, Role::mix_out, layer});
}

}  // namespace

std::int64_t TensorSpec::columns() const {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<TensorSpec> tensor_list(const ModelConfig& c) {
  const std::int64_t h = c.hidden_size;
  const std::int64_t inner = c.intermediate_size;
  std::vector<TensorSpec> out;
  out.push_back({"embed_tokens.weight", {c.vocab_size, h}, Role::embedding});
  for (std::int32_t layer = 0; layer < c.num_layers; ++layer) {
    const std::string p = "layers." + std::to_string(layer) + ".";
    out.push_back({p + "input_layernorm.weight", {h}, Role::input_norm, layer});
    out.push_back({p + "post_attention_layernorm.weight", {h}, Role::post_norm, layer});
    out.push_back({p + "mlp.gate_proj.weight", {inner, h}, Role::mlp_gate, layer});
    out.push_back({p + "mlp.up_proj.weight", {inner, h}, Role::mlp_up, layer});
    out.push_back({p + "mlp.down_proj.weight", {h, inner}, Role::mlp_down, layer});
    add_mixer(c, layer, p, out);
  }
  out.push_back({"norm.weight", {h}, Role::final_norm});
  if (!c.tie_word_embeddings) out.push_back({"lm_head.weight", {c.vocab_size, h}, Role::head});
  return out;
}

std::string file_name_of(const TensorSpec& spec, const std::string& prefix) {
  return spec.role == Role::head ? spec.name : prefix + spec.name;
}

}  // namespace cairn::model
