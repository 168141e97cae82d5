// SPDX-License-Identifier: Apache-2.0
#include "model/net/memory_layout.hpp"

#include "kernels/cpu/kv.hpp"

namespace cairn::model {

std::size_t state_layer_bytes(const ModelConfig& c) {
  return sizeof(float) * (static_cast<std::size_t>(c.linear_value_heads) *
                              static_cast<std::size_t>(c.linear_key_dim) *
                              static_cast<std::size_t>(c.linear_value_dim) +
                          static_cast<std::size_t>(c.conv_kernel - 1) *
                              static_cast<std::size_t>(c.conv_channels()));
}

MemoryLayout memory_layout(const ModelConfig& config, KvType kv) {
  const kernels::KvLayout layer{kv == KvType::bf16 ? kernels::KvType::bf16 : kernels::KvType::f32,
                                config.num_kv_heads, config.head_dim};
  return {static_cast<std::size_t>(config.full_layers()) * layer.layer_bytes(),
          static_cast<std::size_t>(config.linear_layers()) * state_layer_bytes(config)};
}

}  // namespace cairn::model
