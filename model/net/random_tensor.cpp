// SPDX-License-Identifier: Apache-2.0
#include "model/net/random_tensor.hpp"

#include <cmath>

#include "kernels/dtype.hpp"

namespace cairn::model {
namespace {

std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t name_hash(const std::string& name) {  // FNV-1a
  std::uint64_t h = 0xCBF29CE484222325ULL;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return h;
}

}  // namespace

RandomTensor::RandomTensor(const ModelConfig& config, std::uint64_t seed, const TensorSpec& spec)
    : state_(name_hash(spec.name) ^ seed * 0xD1342543DE82EF95ULL), bf16_(!spec.published_f32) {
  const auto uniform = [&](float low, float high) {
    low_ = low;
    width_ = high - low;
  };
  // A matrix whose inputs have unit size gives outputs of size `gain`.
  const auto gain = [&](double g) {
    const auto a = static_cast<float>(g * std::sqrt(3.0 / static_cast<double>(spec.columns())));
    uniform(-a, a);
  };
  // Each layer adds two outputs to the residual stream; together they should not outgrow it.
  const double residual = 1.0 / std::sqrt(2.0 * config.num_layers);
  switch (spec.role) {
    case Role::embedding:
    case Role::head:
      gain(2);
      break;
    case Role::mlp_down:
    case Role::attention_out:
    case Role::mix_out:
      gain(2 * residual);
      break;
    case Role::conv:
      uniform(-0.8F, 0.8F);
      break;
    case Role::a_log:  // decay rates from 1 to 16, as trained models begin
      uniform(0.0F, 2.77F);
      break;
    case Role::dt_bias:  // time steps from some 0.001 to 0.1: memories of ten to a thousand tokens
      uniform(-7.0F, -2.3F);
      break;
    case Role::mix_norm:
      uniform(0.75F, 1.25F);
      break;
    default:
      if (spec.is_matrix()) {
        gain(1);
      } else {
        uniform(-0.25F, 0.25F);
      }
  }
}

void RandomTensor::next(std::int64_t n, std::vector<float>& out) {
  out.resize(static_cast<std::size_t>(n));
  for (float& x : out) {
    const auto top = static_cast<float>(splitmix64(state_) >> 40);  // 24 bits, exact
    const float value = low_ + width_ * (top * 0x1p-24F);
    x = bf16_ ? to_float(to_bf16(value)) : value;
  }
}

}  // namespace cairn::model
