// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_forward.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/conv.hpp"
#include "kernels/cuda/delta_rule.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/pointwise.hpp"
#include "kernels/cuda/rope.hpp"
#include "model/net/memory_layout.hpp"

namespace cairn::model {
namespace cuda = kernels::cuda;

template <class Out>
void CudaForward::gemm(const ForwardStep& step, const DeviceMatrix& m, const Bf16* x,
                       std::int64_t rows, Out* y) const {
  const auto fill = [&](auto& args) {
    args.x = x;
    args.ldx = args.k = m.k;
    args.rows = rows;
    args.n = args.ldy = m.n;
    args.y = y;
    args.workspace = p_.work.gemm;
  };
  if (m.is_int8()) {
    cuda::GemmArgs<cuda::Int8Weight, Out> args;
    fill(args);
    args.weight = m.int8;
    return cuda::gemm(step.stream, args);
  }
  cuda::GemmArgs<cuda::Bf16Weight, Out> args;
  fill(args);
  args.weight = m.bf16;
  if (m.by_library && p_.library->run(step.stream, args)) return;
  cuda::gemm(step.stream, args);
}

void CudaForward::norm(const ForwardStep& step, const float* w, const float* update) const {
  cuda::AddRmsNormArgs<Bf16> args;
  args.x = p_.work.x;
  args.update = update;
  args.w = w;
  args.eps = p_.config.rms_norm_eps;
  args.rows = step.tables.rows;
  args.width = p_.config.hidden_size;
  args.y = p_.work.normed;
  cuda::add_rms_norm(step.stream, args);
}

void CudaForward::recurrent(const ForwardStep& step, const DeviceLayer& layer, std::int32_t index,
                            bool unread) const {
  const ModelConfig& c = p_.config;
  const DeviceWork& work = p_.work;
  const std::int64_t rows = step.tables.rows;
  gemm(step, layer.in, work.normed, rows, work.wide);  // [q | k | v | z | b | a]

  const std::int64_t offset =
      static_cast<std::int64_t>(state_layer_bytes(c) / sizeof(float)) * index;
  cuda::ConvGatesArgs conv;
  conv.pass = step.tables.pass;
  conv.shape = {c.linear_key_heads, c.linear_value_heads, c.linear_key_dim, c.linear_value_dim};
  conv.x = work.wide;
  conv.b = work.wide + c.conv_channels() + c.value_channels();
  conv.a = conv.b + c.linear_value_heads;
  conv.ld_x = layer.in.n;
  conv.weight = layer.conv;
  conv.a_log = layer.a_log;
  conv.dt_bias = layer.dt_bias;
  conv.window_offset = offset + std::int64_t{c.value_channels()} * c.linear_key_dim;  // after S
  conv.y = work.qkv;
  conv.gates = work.gates;
  cuda::conv_gates(step.stream, conv);

  cuda::delta_rule(step.stream,
                   {conv.pass, conv.shape, work.qkv, work.gates, offset, work.recurred});

  if (unread) return;
  cuda::GatedNormArgs<Bf16> norm;
  norm.o = work.recurred;
  norm.z = work.wide + c.conv_channels();
  norm.ld_z = layer.in.n;
  norm.w = layer.mix_norm;
  norm.eps = c.rms_norm_eps;
  norm.tokens = rows;
  norm.heads = c.linear_value_heads;
  norm.head_dim = c.linear_value_dim;
  norm.y = work.mixed;
  cuda::gated_norm(step.stream, norm);
}

template <class Element>
void CudaForward::attention(const ForwardStep& step, const DeviceLayer& layer, std::int32_t index,
                            bool unread) const {
  const ModelConfig& c = p_.config;
  const DeviceWork& work = p_.work;
  const StepTables& t = step.tables;
  gemm(step, layer.in, work.normed, t.rows, work.wide);  // [per head: query, gate | keys | values]

  cuda::QkRopeArgs<Element> rope;
  rope.q = work.wide;
  rope.q_head_stride = 2 * std::int64_t{c.head_dim};
  rope.k = work.wide + c.num_heads * rope.q_head_stride;
  rope.v = rope.k + std::int64_t{c.num_kv_heads} * c.head_dim;
  rope.ld = layer.in.n;
  rope.q_norm = layer.query_norm;
  rope.k_norm = layer.key_norm;
  rope.eps = c.rms_norm_eps;
  rope.cos = work.cos;
  rope.sin = work.sin;
  rope.rotary_dim = c.rotary_dim;
  rope.sequence = t.sequence;
  rope.positions = t.positions;
  rope.rows = t.rows;
  rope.heads = c.num_heads;
  rope.kv.pool = step.arena;
  rope.kv.block_bytes = kDeviceUnit;  // what block_tables count
  rope.kv.layer_offset = static_cast<std::int64_t>(memory_layout(c, KvType::bf16).kv_block_bytes) /
                         c.full_layers() * index;
  rope.kv.tables = t.block_tables;
  rope.kv.table_stride = t.table_stride;
  rope.kv.kv_heads = c.num_kv_heads;
  rope.kv.head_dim = c.head_dim;
  rope.q_out = reinterpret_cast<Element*>(work.queries);
  cuda::qk_rope(step.stream, rope);

  if (unread) return;
  cuda::AttentionDecodeArgs<Element, Bf16> args;
  args.kv = rope.kv;
  args.q = rope.q_out;
  args.group = c.num_heads / c.num_kv_heads;
  args.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  args.gate = work.wide + c.head_dim;
  args.ld_gate = layer.in.n;
  args.gate_head_stride = rope.q_head_stride;
  args.y = work.mixed;
  if (t.prefill_tile_count > 0) {
    args.tiles = t.prefill_tiles;
    args.tile_count = t.prefill_tile_count;
    cuda::attention_prefill<Element, Bf16>(step.stream, args);
  }
  args.ranges = t.ranges;
  args.scratch = work.attention;
  // As many sequences at a time as the scratch takes: all of them, but where many are very long.
  const std::int64_t most = p_.decode_parts / t.ranges;
  for (std::int64_t done = 0; done < t.decode_tile_count; done += most) {
    args.tiles = t.decode_tiles + done;
    args.tile_count = std::min(most, t.decode_tile_count - done);
    cuda::attention_decode(step.stream, args);
  }
}

void CudaForward::mlp(const ForwardStep& step, const DeviceLayer& layer) const {
  const DeviceWork& work = p_.work;
  const std::int64_t rows = step.tables.rows;
  const std::int64_t inner = p_.config.intermediate_size;
  norm(step, layer.post_norm, work.update);
  if (layer.gate_up.by_library) {
    gemm(step, layer.gate_up, work.normed, rows, work.wide);
    cuda::swiglu<Bf16>(
        step.stream, {work.wide, 2 * inner, work.wide + inner, 2 * inner, rows, inner, work.inner});
  } else {
    const auto fused = [&](auto weight) {
      cuda::GemmArgs<decltype(weight), Bf16> args;
      args.x = work.normed;
      args.ldx = args.k = layer.gate_up.k;
      args.rows = rows;
      args.weight = weight;
      args.n = layer.gate_up.n;
      args.y = work.inner;
      args.ldy = inner;
      args.workspace = work.gemm;
      cuda::gemm_swiglu(step.stream, args);
    };
    layer.gate_up.is_int8() ? fused(layer.gate_up.int8) : fused(layer.gate_up.bf16);
  }
  gemm(step, layer.down, work.inner, rows, work.update);
}

void CudaForward::head(const ForwardStep& step) const {
  const DeviceWork& work = p_.work;
  cuda::AddRmsNormArgs<Bf16> args;
  args.x = work.x;
  args.update = work.update;
  args.w = p_.weights.final_norm;
  args.eps = p_.config.rms_norm_eps;
  args.rows = step.tables.logits_count;
  args.width = p_.config.hidden_size;
  args.y = work.normed;
  args.from = step.tables.logits_rows;
  cuda::add_rms_norm(step.stream, args);
  const DeviceMatrix& m = p_.weights.head;
  for (std::int64_t done = 0; done < args.rows; done += p_.head_rows) {
    gemm(step, m, work.normed + done * m.k, std::min(p_.head_rows, args.rows - done),
         step.logits + done * m.n);
  }
}

void CudaForward::queue(const ForwardStep& step) const {
  const DeviceWork& work = p_.work;
  cuda::embedding(step.stream, {step.tables.tokens, p_.weights.embedding, step.tables.rows,
                                p_.config.hidden_size, work.x});
  const float* update = nullptr;
  std::int32_t index[2] = {0, 0};  // by kind
  for (const DeviceLayer& layer : p_.weights.layers) {
    // The last layer owes a step without logits what it leaves to later ones.
    const bool unread = step.tables.logits_count == 0 && &layer == &p_.weights.layers.back();
    norm(step, layer.input_norm, update);
    if (layer.kind == LayerKind::linear_attention) {
      recurrent(step, layer, index[0]++, unread);
    } else if (p_.half) {
      attention<F16>(step, layer, index[1]++, unread);
    } else {
      attention<Bf16>(step, layer, index[1]++, unread);
    }
    if (unread) return;
    gemm(step, layer.out, work.mixed, step.tables.rows, work.update);
    update = work.update;
    mlp(step, layer);
  }
  head(step);
}

}  // namespace cairn::model
