// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/check.hpp"
#include "kernels/cpu/quantised.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/weights.hpp"

namespace cairn::model {
namespace {

using kernels::PackedMatrix;
using kernels::WeightFormat;

LayerWeights make_layer(const ModelConfig& c, LayerKind kind, WeightFormat format) {
  const std::int64_t h = c.hidden_size;
  const std::int64_t query = static_cast<std::int64_t>(c.num_heads) * c.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(c.num_kv_heads) * c.head_dim;
  LayerWeights w;
  w.kind = kind;
  if (kind == LayerKind::full_attention) {
    w.in = PackedMatrix(2 * query + 2 * kv, h, format);
    w.out = PackedMatrix(h, query, format);
  } else {
    const std::int64_t values = c.value_channels();
    const std::int64_t gates = 2 * static_cast<std::int64_t>(c.linear_value_heads);
    const bool apart = format != WeightFormat::bf16;
    w.in = PackedMatrix(c.conv_channels() + values + (apart ? 0 : gates), h, format);
    if (apart) w.gates = PackedMatrix(gates, h);
    w.out = PackedMatrix(h, values, format);
  }
  w.gate_up = PackedMatrix(2 * static_cast<std::int64_t>(c.intermediate_size), h, format);
  w.down = PackedMatrix(h, c.intermediate_size, format);
  return w;
}

std::vector<float>& vector_of(Weights& weights, const TensorSpec& spec) {
  if (spec.role == Role::final_norm) return weights.final_norm;
  LayerWeights& w = weights.layers.at(static_cast<std::size_t>(spec.layer));
  switch (spec.role) {
    case Role::input_norm:
      return w.input_norm;
    case Role::post_norm:
      return w.post_norm;
    case Role::query_norm:
      return w.query_norm;
    case Role::key_norm:
      return w.key_norm;
    case Role::conv:
      return w.conv;
    case Role::a_log:
      return w.a_log;
    case Role::dt_bias:
      return w.dt_bias;
    default:
      check(spec.role == Role::mix_norm, "not a vector: " + spec.name);
      return w.mix_norm;
  }
}

}  // namespace

std::shared_ptr<Weights> empty_weights(const ModelConfig& config, WeightFormat format) {
  auto w = std::make_shared<Weights>();
  w->config = config;
  w->format = format;
  for (const LayerKind kind : config.layers) w->layers.push_back(make_layer(config, kind, format));
  w->head = PackedMatrix(config.vocab_size, config.hidden_size, format);
  if (!config.tie_word_embeddings) {
    w->embedding = PackedMatrix(config.vocab_size, config.hidden_size, format);
  }
  for (const TensorSpec& spec : tensor_list(config)) {
    if (spec.is_matrix()) continue;
    vector_of(*w, spec).resize(static_cast<std::size_t>(spec.elements()));
  }
  return w;
}

void Hash64::add(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t w = 0;
  std::size_t held = length_ % sizeof w;
  length_ += bytes;
  while (held != 0 && bytes > 0) {
    pending_[held] = *p++;
    --bytes;
    held = (held + 1) % sizeof w;
    if (held == 0) {
      std::memcpy(&w, pending_, sizeof w);
      h_ = mix(h_, w);
    }
  }
  for (; bytes >= sizeof w; p += sizeof w, bytes -= sizeof w) {
    std::memcpy(&w, p, sizeof w);
    h_ = mix(h_, w);
  }
  if (bytes > 0) std::memcpy(pending_, p, bytes);
}

std::uint64_t Hash64::value() const {
  std::uint64_t w = 0;
  std::memcpy(&w, pending_, length_ % sizeof w);
  return mix(mix(h_, w), length_);
}

WeightsBuilder::WeightsBuilder(const ModelConfig& config, WeightFormat format)
    : weights_(empty_weights(config, format)) {}

WeightsBuilder::Place WeightsBuilder::place_of(const TensorSpec& spec) {
  const ModelConfig& c = weights_->config;
  if (spec.role == Role::head) return {&weights_->head, 0};
  if (spec.role == Role::embedding) {
    return {c.tie_word_embeddings ? &weights_->head : &weights_->embedding, 0};
  }
  LayerWeights& w = weights_->layers.at(static_cast<std::size_t>(spec.layer));
  const std::int64_t query_rows = 2 * static_cast<std::int64_t>(c.num_heads) * c.head_dim;
  const std::int64_t mixed = c.conv_channels() + c.value_channels();
  switch (spec.role) {
    case Role::mlp_gate:
      return {&w.gate_up, 0};
    case Role::mlp_up:
      return {&w.gate_up, c.intermediate_size};
    case Role::mlp_down:
      return {&w.down, 0};
    case Role::query_gate:
    case Role::mix_qkv:
      return {&w.in, 0};
    case Role::key:
      return {&w.in, query_rows};
    case Role::value:
      return {&w.in, query_rows + static_cast<std::int64_t>(c.num_kv_heads) * c.head_dim};
    case Role::mix_z:
      return {&w.in, c.conv_channels()};
    case Role::mix_b:
    case Role::mix_a: {
      const std::int64_t row = spec.role == Role::mix_b ? 0 : c.linear_value_heads;
      return w.gates.n() > 0 ? Place{&w.gates, row} : Place{&w.in, mixed + row};
    }
    case Role::attention_out:
    case Role::mix_out:
      return {&w.out, 0};
    default:
      check(false, "not a matrix: " + spec.name);
      return {};
  }
}

// Each row with its tensor and number: rows may then be added in any order and by any thread.
void TensorHash::add(const TensorSpec& spec, std::int64_t row, const void* data,
                     std::size_t bytes) {
  Hash64 hash;
  hash.add(&row, sizeof row);
  hash.add(spec.name.data(), spec.name.size());
  hash.add(data, bytes);
  sum_.fetch_add(hash.value(), std::memory_order_relaxed);
}

void TensorHash::add_rows(const TensorSpec& spec, std::int64_t begin, std::int64_t rows,
                          const Bf16* source) {
  const auto bytes = static_cast<std::size_t>(spec.columns()) * sizeof(Bf16);
  for (std::int64_t row = 0; row < rows; ++row) {
    add(spec, begin + row, source + row * spec.columns(), bytes);
  }
}

void TensorHash::add_vector(const TensorSpec& spec, const std::vector<float>& values) {
  add(spec, 0, values.data(), values.size() * sizeof(float));
}

void WeightsBuilder::add_rows(const TensorSpec& spec, std::int64_t begin, std::int64_t rows,
                              const Bf16* source) {
  hash_.add_rows(spec, begin, rows, source);
  const Place place = place_of(spec);
  place.matrix->pack(place.first_row + begin, rows, source);
}

void WeightsBuilder::add_vector(const TensorSpec& spec, const std::vector<float>& values) {
  hash_.add_vector(spec, values);
  std::vector<float>& to = vector_of(*weights_, spec);
  to = values;
  if (spec.role != Role::conv) return;
  const std::int64_t taps = spec.columns();
  const std::int64_t channels = spec.rows();
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t ch = 0; ch < channels; ++ch) {
      to[static_cast<std::size_t>(tap * channels + ch)] =
          values[static_cast<std::size_t>(ch * taps + tap)];
    }
  }
}

std::shared_ptr<const Weights> WeightsBuilder::finish() {
  weights_->hash = hash_.value();
  return std::move(weights_);
}

std::uint64_t packed_bytes(const ModelConfig& config, WeightFormat format) {
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : tensor_list(config)) {
    if (!spec.is_matrix()) continue;
    const bool gate = spec.role == Role::mix_a || spec.role == Role::mix_b;
    bytes +=
        PackedMatrix::bytes_for(spec.rows(), spec.columns(), gate ? WeightFormat::bf16 : format);
  }
  return bytes;
}

const ModelConfig& config_of(const Weights& weights) { return weights.config; }
std::uint64_t hash_of(const Weights& weights) { return weights.hash; }

WeightFormat format_of(const Weights& weights) { return weights.format; }

std::optional<WeightFormat> format_named(std::string_view name) {
  for (const auto format : {WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    if (name == kernels::to_string(format)) return format;
  }
  return std::nullopt;
}

std::string format_name(WeightFormat format) {
  const std::string name = kernels::to_string(format);
  return format == WeightFormat::bf16 ? name
                                      : name + "/" + std::to_string(kernels::quant_group(format));
}

std::uint64_t matrix_bytes(const Weights& weights) {
  std::uint64_t bytes = weights.head.bytes();
  for (const LayerWeights& layer : weights.layers) {
    for (const PackedMatrix* m :
         {&layer.in, &layer.gates, &layer.out, &layer.gate_up, &layer.down}) {
      bytes += m->bytes();
    }
  }
  return bytes;
}

}  // namespace cairn::model
