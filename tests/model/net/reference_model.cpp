// SPDX-License-Identifier: Apache-2.0
#include "tests/model/net/reference_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace cairn::testing {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

std::vector<double> rounded(ReferenceModel::Round round, std::vector<double> x) {
  if (round != nullptr) std::transform(x.begin(), x.end(), x.begin(), round);
  return x;
}

std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

}  // namespace

// What a layer remembers of the tokens so far.
struct ReferenceModel::LayerMemory {
  std::vector<Vector> projected;           // linear: pre-convolution channels of every token
  std::vector<std::vector<Vector>> state;  // linear: [value head][dk][dv]
  std::vector<Vector> keys, values;        // full: of every token, [kv heads * head_dim]
};

ReferenceModel::ReferenceModel(const model::ModelConfig& config, const model::Checkpoint& files,
                               const Rounding& rounding)
    : config_(config), rounding_(rounding) {
  const std::string prefix = "model.language_model.";
  for (const std::string_view name : files.names()) {
    const model::TensorView& t = *files.find(name);
    Vector values;
    for (std::size_t at = 0; at < t.data.size(); at += t.dtype == "F32" ? 4 : 2) {
      std::uint32_t bits = 0;
      if (t.dtype == "F32") {
        std::memcpy(&bits, &t.data[at], 4);
      } else {
        std::uint16_t half = 0;
        std::memcpy(&half, &t.data[at], 2);
        bits = static_cast<std::uint32_t>(half) << 16;
      }
      float value = 0;
      std::memcpy(&value, &bits, 4);
      values.push_back(value);
    }
    const std::string full(name);
    tensors_[full.starts_with(prefix) ? full.substr(prefix.size()) : full] = std::move(values);
  }
}

const ReferenceModel::Vector& ReferenceModel::tensor(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw std::runtime_error("reference: no tensor " + name);
  return it->second;
}

ReferenceModel::Vector ReferenceModel::multiply(const std::string& name,
                                                const Vector& given) const {
  const Vector& w = tensor(name);
  const Vector x = rounded(rounding_.inputs, given);
  Vector y(w.size() / x.size(), 0);
  for (std::size_t o = 0; o < y.size(); ++o) {
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  }
  return y;
}

ReferenceModel::Vector ReferenceModel::norm(const Vector& x, const std::string& weight) const {
  const Vector& w = tensor(weight);
  double square = 0;
  for (const double v : x) square += v * v;
  const double scale = 1 / std::sqrt(square / static_cast<double>(x.size()) +
                                     static_cast<double>(config_.rms_norm_eps));
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * (1 + w[i]);
  return y;
}

ReferenceModel::Vector ReferenceModel::mix(int layer, const Vector& u, LayerMemory& memory) const {
  const std::string p = "layers." + std::to_string(layer) + ".linear_attn.";
  const std::size_t kh = size(config_.linear_key_heads);
  const std::size_t vh = size(config_.linear_value_heads);
  const std::size_t dk = size(config_.linear_key_dim);
  const std::size_t dv = size(config_.linear_value_dim);
  const std::size_t channels = 2 * kh * dk + vh * dv;
  memory.projected.push_back(multiply(p + "in_proj_qkv.weight", u));
  const Vector z = multiply(p + "in_proj_z.weight", u);
  const Vector b = multiply(p + "in_proj_b.weight", u);
  const Vector a = multiply(p + "in_proj_a.weight", u);
  const Vector& taps = tensor(p + "conv1d.weight");
  const std::size_t now = memory.projected.size() - 1;
  Vector c(channels, 0);
  for (std::size_t ch = 0; ch < channels; ++ch) {
    for (std::size_t back = 0; back < 4 && back <= now; ++back) {
      c[ch] += taps[ch * 4 + 3 - back] * memory.projected[now - back][ch];
    }
    c[ch] = silu(c[ch]);
  }
  if (memory.state.empty()) memory.state.assign(vh, std::vector<Vector>(dk, Vector(dv, 0)));

  Vector y(vh * dv);
  for (std::size_t h = 0; h < vh; ++h) {
    const std::size_t key_head = h / (vh / kh);
    Vector q(dk), k(dk);
    double qq = 0;
    double kk = 0;
    for (std::size_t i = 0; i < dk; ++i) {
      q[i] = c[key_head * dk + i];
      k[i] = c[kh * dk + key_head * dk + i];
      qq += q[i] * q[i];
      kk += k[i] * k[i];
    }
    for (std::size_t i = 0; i < dk; ++i) {
      q[i] /= std::sqrt(qq + 1e-6) * std::sqrt(static_cast<double>(dk));
      k[i] /= std::sqrt(kk + 1e-6);
    }
    const double beta = sigmoid(b[h]);
    const double decay =
        std::exp(-std::exp(tensor(p + "A_log")[h]) * softplus(a[h] + tensor(p + "dt_bias")[h]));
    std::vector<Vector>& s = memory.state[h];
    Vector o(dv, 0);
    double square = 0;
    for (std::size_t j = 0; j < dv; ++j) {
      double read = 0;
      for (std::size_t i = 0; i < dk; ++i) read += (s[i][j] *= decay) * k[i];
      const double d = beta * (c[2 * kh * dk + h * dv + j] - read);
      for (std::size_t i = 0; i < dk; ++i) o[j] += (s[i][j] += k[i] * d) * q[i];
      square += o[j] * o[j];
    }
    const double scale =
        1 / std::sqrt(square / static_cast<double>(dv) + static_cast<double>(config_.rms_norm_eps));
    for (std::size_t j = 0; j < dv; ++j) {
      y[h * dv + j] = o[j] * scale * tensor(p + "norm.weight")[j] * silu(z[h * dv + j]);
    }
  }
  return multiply(p + "out_proj.weight", y);
}

void ReferenceModel::rotate(Vector& head, std::size_t position) const {
  const std::size_t half = size(config_.rotary_dim) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(position) *
        std::pow(config_.rope_theta, -2.0 * static_cast<double>(i) / config_.rotary_dim);
    const double first = head[i];
    const double second = head[i + half];
    head[i] = first * std::cos(angle) - second * std::sin(angle);
    head[i + half] = second * std::cos(angle) + first * std::sin(angle);
  }
}

ReferenceModel::Vector ReferenceModel::attend(int layer, const Vector& u,
                                              LayerMemory& memory) const {
  const std::string p = "layers." + std::to_string(layer) + ".self_attn.";
  const std::size_t heads = size(config_.num_heads);
  const std::size_t kv = size(config_.num_kv_heads);
  const std::size_t dim = size(config_.head_dim);
  const std::size_t now = memory.keys.size();
  const Vector qg = multiply(p + "q_proj.weight", u);
  const Vector k = multiply(p + "k_proj.weight", u);
  memory.values.push_back(rounded(rounding_.heads, multiply(p + "v_proj.weight", u)));
  Vector keys;
  const auto head_of = [&](const Vector& x, std::size_t at, const std::string& weight) {
    Vector head(x.begin() + static_cast<std::ptrdiff_t>(at),
                x.begin() + static_cast<std::ptrdiff_t>(at + dim));
    head = norm(head, weight);
    rotate(head, now);
    return rounded(rounding_.heads, head);
  };
  for (std::size_t h = 0; h < kv; ++h) {
    const Vector head = head_of(k, h * dim, p + "k_norm.weight");
    keys.insert(keys.end(), head.begin(), head.end());
  }
  memory.keys.push_back(keys);
  Vector y(heads * dim);
  for (std::size_t h = 0; h < heads; ++h) {
    const Vector q = head_of(qg, h * 2 * dim, p + "q_norm.weight");
    const std::size_t at = h / (heads / kv) * dim;
    Vector weight(now + 1, 0);
    double total = 0;
    for (std::size_t t = 0; t <= now; ++t) {
      double score = 0;
      for (std::size_t i = 0; i < dim; ++i) score += q[i] * memory.keys[t][at + i];
      weight[t] = std::exp(score / std::sqrt(static_cast<double>(dim)));
      total += weight[t];
    }
    for (std::size_t i = 0; i < dim; ++i) {
      double sum = 0;
      for (std::size_t t = 0; t <= now; ++t) sum += weight[t] * memory.values[t][at + i];
      y[h * dim + i] = sum / total * sigmoid(qg[h * 2 * dim + dim + i]);
    }
  }
  return multiply(p + "o_proj.weight", y);
}

ReferenceModel::Vector ReferenceModel::feed_forward(int layer, const Vector& u) const {
  const std::string p = "layers." + std::to_string(layer) + ".mlp.";
  Vector gate = multiply(p + "gate_proj.weight", u);
  const Vector up = multiply(p + "up_proj.weight", u);
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = silu(gate[i]) * up[i];
  return multiply(p + "down_proj.weight", gate);
}

std::vector<std::vector<double>> ReferenceModel::forward(
    const std::vector<std::int32_t>& tokens) const {
  std::vector<LayerMemory> memory(config_.layers.size());
  std::vector<Vector> out;
  const std::size_t hidden = size(config_.hidden_size);
  for (const std::int32_t token : tokens) {
    const auto row =
        tensor("embed_tokens.weight").begin() + static_cast<std::ptrdiff_t>(size(token) * hidden);
    Vector x(row, row + static_cast<std::ptrdiff_t>(hidden));
    const auto add = [&](const Vector& y) {
      for (std::size_t i = 0; i < hidden; ++i) x[i] += y[i];
    };
    for (int l = 0; l < config_.num_layers; ++l) {
      const std::string p = "layers." + std::to_string(l) + ".";
      const Vector u = norm(x, p + "input_layernorm.weight");
      LayerMemory& m = memory[static_cast<std::size_t>(l)];
      add(config_.layers[static_cast<std::size_t>(l)] == model::LayerKind::full_attention
              ? attend(l, u, m)
              : mix(l, u, m));
      add(feed_forward(l, norm(x, p + "post_attention_layernorm.weight")));
    }
    out.push_back(multiply(config_.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight",
                           norm(x, "norm.weight")));
  }
  return out;
}

}  // namespace cairn::testing
