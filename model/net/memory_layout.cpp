// SPDX-License-Identifier: Apache-2.0
#include "model/net/memory_layout.hpp"

#include "base/check.hpp"
#include "kernels/cpu/kv.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::model {
namespace {

// One layer of a block.
kernels::KvLayout layer_layout(const ModelConfig& config, KvType kv) {
  return {kv == KvType::bf16 ? kernels::KvType::bf16 : kernels::KvType::f32, config.num_kv_heads,
          config.head_dim};
}

// S of all value heads of a layer.
std::size_t matrices_bytes(const ModelConfig& c) {
  return sizeof(float) * static_cast<std::size_t>(c.linear_value_heads) *
         static_cast<std::size_t>(c.linear_key_dim) * static_cast<std::size_t>(c.linear_value_dim);
}

}  // namespace

std::size_t state_layer_bytes(const ModelConfig& c) {
  return matrices_bytes(c) + sizeof(float) * static_cast<std::size_t>(c.conv_kernel - 1) *
                                 static_cast<std::size_t>(c.conv_channels());
}

CpuStateLayer cpu_state_layer(const ModelConfig& c) {
  CpuStateLayer layer;
  layer.window = matrices_bytes(c);
  layer.pending = state_layer_bytes(c);
  layer.bytes =
      layer.pending + sizeof(float) * static_cast<std::size_t>(c.linear_value_heads) *
                          static_cast<std::size_t>(kernels::delta_groups(c.linear_value_dim));
  return layer;
}

MemoryLayout memory_layout(const ModelConfig& config, KvType kv) {
  return {static_cast<std::size_t>(config.full_layers()) * layer_layout(config, kv).layer_bytes(),
          static_cast<std::size_t>(config.linear_layers()) * state_layer_bytes(config)};
}

MemoryLayout cpu_memory_layout(const ModelConfig& config, KvType kv) {
  MemoryLayout layout = memory_layout(config, kv);
  layout.state_bytes =
      static_cast<std::size_t>(config.linear_layers()) * cpu_state_layer(config).bytes;
  return layout;
}

void copy_cpu_kv_slots(const ModelConfig& config, KvType kv, const std::byte* from, std::byte* to,
                       std::int32_t tokens) {
  check(tokens >= 0 && tokens <= kBlockTokens, "copy_kv_slots: more slots than a block has");
  const kernels::KvLayout layer = layer_layout(config, kv);
  const std::size_t bytes = memory_layout(config, kv).kv_block_bytes;
  for (std::size_t at = 0; at < bytes; at += layer.layer_bytes()) {
    kernels::copy_kv_slots(layer, from + at, to + at, tokens);
  }
}

}  // namespace cairn::model
