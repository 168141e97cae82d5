// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/conv.hpp"
#include "kernels/cuda/delta_rule.hpp"
#include "kernels/cuda/norm.hpp"
#include "tests/gpu_check/arrays.hpp"
#include "tests/gpu_check/bounds.hpp"
#include "tests/gpu_check/shapes.hpp"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT

RecurrentShape shape_of_model() {
  const model::ModelConfig& c = measured_model();
  return {c.linear_key_heads, c.linear_value_heads, c.linear_key_dim, c.linear_value_dim};
}

/// Slices of the same length, each with rows and a state of its own; launch i runs `slices` of
/// them, from another place in memory than the one before.
class Layer {
 public:
  Layer(KernelClock& clock, std::int32_t slices, std::int32_t tokens)
      : shape(shape_of_model()),
        slices_(slices),
        tokens_(tokens),
        count_(clock.copies(4.0 * static_cast<double>(slot()) * slices)),
        states_(clock.stream(), slot() * slices * count_),
        slice_table_(clock.stream(), make_slices()),
        chunk_table_(clock.stream(), make_chunks()),
        x(clock.stream(), rows() * shape.channels(), 2),
        gates_in(clock.stream(), rows() * 2 * shape.value_heads, 3),
        weight(clock.stream(), 4 * shape.channels(), 4),
        of_heads(clock.stream(), 2 * shape.value_heads, 5),
        y(rows() * shape.channels()),
        gates(rows() * 2 * shape.value_heads) {}

  std::int64_t rows() const { return std::int64_t{slices_} * tokens_; }
  std::int64_t matrices() const { return shape.values() * shape.key_dim; }
  int count() const { return count_; }

  Pass pass(int launch) const {
    Pass p;
    p.slices = slice_table_.get() + static_cast<std::int64_t>(launch % count_) * slices_;
    p.chunks = chunk_table_.get();
    p.slice_count = slices_;
    p.chunk_count = slices_ * static_cast<std::int32_t>(ceil_div(tokens_, kChunkTokens));
    p.rows = rows();
    p.longest = tokens_;
    return p;
  }

  RecurrentShape shape;

 private:
  std::int64_t slot() const { return matrices() + 3 * shape.channels(); }
  std::vector<PassSlice> make_slices() const {
    std::vector<PassSlice> slices;
    for (std::int64_t i = 0; i < std::int64_t{slices_} * count_; ++i) {
      slices.push_back({i % slices_ * tokens_, states_.get() + i * slot(), tokens_, 0, 0});
    }
    return slices;
  }
  std::vector<PassChunk> make_chunks() const {
    std::vector<PassChunk> chunks;
    for (std::int32_t i = 0; i < slices_; ++i) append_chunks(i, tokens_, chunks);
    return chunks;
  }

  std::int32_t slices_, tokens_;
  int count_;
  Array<float> states_;
  Array<PassSlice> slice_table_;
  Array<PassChunk> chunk_table_;

 public:
  Array<float> x, gates_in, weight, of_heads;
  Space<float> y, gates;
};

void measure(KernelClock& clock, std::int32_t slices, std::int32_t tokens) {
  const Layer layer(clock, slices, tokens);
  const RecurrentShape& s = layer.shape;
  const auto rows = static_cast<double>(layer.rows());
  const auto channels = static_cast<double>(s.channels());
  const auto matrices = static_cast<double>(layer.matrices());
  const int launches = tokens > 1 ? 4 : std::max(20, 2 * layer.count());
  const std::string what = ", " + std::to_string(slices) + " x " + std::to_string(tokens);

  ConvGatesArgs conv;
  conv.shape = s;
  conv.x = layer.x.get();
  conv.a = layer.gates_in.get();
  conv.b = layer.gates_in.get() + s.value_heads;
  conv.ld_x = s.channels();
  conv.weight = layer.weight.get();
  conv.a_log = layer.of_heads.get();
  conv.dt_bias = layer.of_heads.get() + s.value_heads;
  conv.window_offset = layer.matrices();
  conv.y = layer.y.get();
  conv.gates = layer.gates.get();
  clock.measure("conv_gates" + what, {4 * channels * (2 * rows + 4 + 6.0 * slices), 0, 0}, launches,
                [&](int i) {
                  conv.pass = layer.pass(i);
                  conv_gates(clock.stream().get(), conv);
                });

  DeltaRuleArgs rule;
  rule.shape = s;
  rule.qkv = layer.x.get();
  rule.gates = layer.gates_in.get();
  rule.o = layer.y.get();
  clock.measure("delta_rule" + what,
                {4 * (rows * (channels + static_cast<double>(s.values())) + 2 * matrices * slices),
                 0, 4 * matrices * rows},
                launches, [&](int i) {
                  rule.pass = layer.pass(i);
                  delta_rule(clock.stream().get(), rule);
                });

  GatedNormArgs<Bf16> norm;
  norm.o = layer.x.get();
  norm.z = layer.x.get();
  norm.ld_z = s.values();
  norm.w = layer.weight.get();
  norm.eps = 1e-6F;
  norm.tokens = layer.rows();
  norm.heads = s.value_heads;
  norm.head_dim = s.value_dim;
  norm.y = reinterpret_cast<Bf16*>(layer.y.get());
  clock.measure("gated_norm" + what, {rows * static_cast<double>(s.values()) * 10, 0, 0}, launches,
                [&](int) { gated_norm(clock.stream().get(), norm); });
}

}  // namespace

void measure_recurrence(KernelClock& clock) {
  measure(clock, 1, 1);
  measure(clock, 32, 1);
  measure(clock, 1, static_cast<std::int32_t>(kPrefillRows));
  measure(clock, 8, static_cast<std::int32_t>(kPrefillRows / 8));
}

}  // namespace cairn::gpu_check
