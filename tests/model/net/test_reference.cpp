// SPDX-License-Identifier: Apache-2.0
// Every grouping of heads against a plain fp64 forward pass that shares no code with ours.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "model/net/backend.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net/reference_model.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness_sequence.hpp"

using namespace cairn;
using namespace cairn::model;

namespace {

// Largest difference over the largest reference logit: fp32 arithmetic, measured below 5e-6.
constexpr double kF32Bound = 2e-5;
constexpr double kBf16Bound = 2e-2;     // keys and values in bf16, measured below 7e-3
constexpr double kRoundedBound = 2e-1;  // activations in bf16 as well, measured below 8e-2

double worst_difference(const ModelConfig& shape, const std::string& directory, KvType kv,
                        kernels::Isa isa, std::int32_t tokens_wanted,
                        kernels::Activations activations = kernels::Activations::fp32) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < tokens_wanted; ++i)
    tokens.push_back((i * 37 + 11) % shape.vocab_size);
  const testing::ReferenceModel reference(shape, Checkpoint::open_directory(directory));
  const auto wanted = reference.forward(tokens);
  CpuOptions options;
  options.threads = 2;
  options.kv = kv;
  options.activations = activations;
  options.isa = kernels::to_string(isa);
  const auto backend = make_cpu_backend(load_weights(directory), options);
  const testing::DeviceMemory memory = testing::host_memory();
  testing::DrivenSequence sequence(*backend, memory);
  const std::vector<float> got = sequence.run(tokens);
  double largest = 0;
  double worst = 0;
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    for (std::size_t i = 0; i < wanted[t].size(); ++i) {
      largest = std::max(largest, std::abs(wanted[t][i]));
      worst = std::max(worst,
                       std::abs(wanted[t][i] - static_cast<double>(got[t * wanted[t].size() + i])));
    }
  }
  return worst / largest;
}

ModelConfig grouped(std::int32_t values_per_key, std::int32_t heads, std::int32_t kv_heads) {
  ModelConfig c = shape_by_name("tiny");
  c.linear_value_heads = c.linear_key_heads * values_per_key;
  c.num_heads = heads;
  c.num_kv_heads = kv_heads;
  return c;
}

}  // namespace

TEST_CASE("logits match the plain forward pass for every grouping of heads") {
  struct Shape {
    const char* name;
    ModelConfig config;
  };
  std::vector<Shape> shapes{
      {"one value head per key head", grouped(1, 4, 4)},
      {"two value heads per key head", grouped(2, 4, 2)},
      {"three value heads per key head", grouped(3, 6, 1)},
      {"untied head", grouped(2, 2, 1)},
      {"odd dimensions, recurrent last layer", grouped(3, 3, 1)},
      {"one key head", grouped(2, 8, 2)},
  };
  shapes[3].config.tie_word_embeddings = false;
  ModelConfig& odd = shapes[4].config;
  odd.vocab_size = odd.sampled_vocab = 203;
  odd.hidden_size = 71;
  odd.intermediate_size = 101;
  odd.layers = {LayerKind::full_attention, LayerKind::linear_attention, LayerKind::full_attention,
                LayerKind::linear_attention};
  odd.head_dim = 20;
  odd.rotary_dim = 10;
  odd.linear_key_dim = 24;
  odd.linear_value_dim = 40;
  odd.tie_word_embeddings = false;
  shapes[5].config.linear_key_heads = 1;
  shapes[5].config.linear_value_heads = 2;
  for (const Shape& shape : shapes) {
    const testing::TempDir dir;
    write_model_directory(shape.config, 17, dir.path());
    for (const kernels::Isa isa : kernels::supported_isas()) {
      INFO(shape.name << " on " << kernels::to_string(isa));
      const double f32 = worst_difference(shape.config, dir.path(), KvType::f32, isa, 80);
      UNSCOPED_INFO("fp32 keys and values: " << f32);
      CHECK(f32 < kF32Bound);
      const double bf16 = worst_difference(shape.config, dir.path(), KvType::bf16, isa, 80);
      UNSCOPED_INFO("bf16 keys and values: " << bf16);
      CHECK(bf16 < kBf16Bound);
      CHECK(bf16 > f32);
    }
    const double rounded = worst_difference(shape.config, dir.path(), KvType::bf16,
                                            kernels::detect_isa(), 80, kernels::Activations::bf16);
    INFO(shape.name << ", activations in bf16: " << rounded);
    CHECK(rounded < kRoundedBound);
  }
}

TEST_CASE("logits match the plain forward pass past a range of 512 keys") {
  const testing::TempDir dir;
  const ModelConfig shape = grouped(2, 4, 2);
  write_model_directory(shape, 19, dir.path());
  const double f32 = worst_difference(shape, dir.path(), KvType::f32, kernels::detect_isa(), 600);
  INFO("fp32 keys and values: " << f32);
  CHECK(f32 < kF32Bound);
}

TEST_CASE("logits of the demo's shape match the plain forward pass") {
  const testing::TempDir dir;
  const ModelConfig shape = shape_by_name("demo");
  write_model_directory(shape, 23, dir.path());
  const double f32 = worst_difference(shape, dir.path(), KvType::f32, kernels::detect_isa(), 24);
  INFO("fp32 keys and values: " << f32);
  CHECK(f32 < kF32Bound);
}
