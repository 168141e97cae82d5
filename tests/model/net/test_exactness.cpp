// SPDX-License-Identifier: Apache-2.0
// The exactness suite on the CPU backend, at every instruction set of this machine.
#include "base/check.hpp"
#include "kernels/cpu/isa.hpp"
#include "model/net/weights.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness.hpp"
#include "tests/support/sanitized.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::kernels::Activations;
using cairn::kernels::WeightFormat;

namespace {

testing::MakeBackend cpu(std::shared_ptr<const Weights> weights, kernels::Isa isa,
                         Activations activations = Activations::bf16) {
  return [weights = std::move(weights), isa, activations](int threads) {
    CpuOptions options;
    options.activations = activations;
    options.threads = threads;
    options.isa = kernels::to_string(isa);
    return make_cpu_backend(weights, options);
  };
}

// Shapes that reach every form of the kernels: three value heads per key head, a recurrent last
// layer, an untied head, dimensions that are no multiple of a vector.
ModelConfig odd_shape() {
  ModelConfig c = shape_by_name("tiny");
  c.vocab_size = c.sampled_vocab = 203;
  c.hidden_size = 72;
  c.intermediate_size = 100;
  c.layers = {LayerKind::full_attention, LayerKind::linear_attention, LayerKind::full_attention,
              LayerKind::linear_attention};
  c.num_heads = 3;
  c.num_kv_heads = 1;
  c.head_dim = 20;
  c.rotary_dim = 10;
  c.linear_key_heads = 2;
  c.linear_value_heads = 6;
  c.linear_key_dim = 24;
  c.linear_value_dim = 40;
  c.tie_word_embeddings = false;
  return c;
}

// Rows of more than one group of values that share a scale, the last one cut short.
ModelConfig grouped_shape() {
  ModelConfig c = odd_shape();
  c.hidden_size = 152;
  c.intermediate_size = 264;
  c.layers.resize(3);
  c.num_layers = 3;
  return c;
}

// The portable level is some thirty times slower and gets shorter prompts where that matters (none:
// it is left out); that it gives the bits of the others is a test of its own.
void check_all_isas(const std::shared_ptr<const Weights>& weights,
                    const testing::ExactnessOptions& given, std::int32_t portable_long_tokens,
                    Activations activations = Activations::bf16) {
  for (const kernels::Isa isa : kernels::supported_isas()) {
    testing::ExactnessOptions options = given;
    if (isa == kernels::Isa::portable && portable_long_tokens == 0) continue;
    if (isa == kernels::Isa::portable) {
      options.long_tokens = portable_long_tokens;
      options.splits = options.long_positions = 2;
    }
    const auto report = testing::check_exactness(cpu(weights, isa, activations), options);
    INFO(kernels::to_string(isa) << ", " << report.checks << " checks");
    for (const std::string& failure : report.failures) UNSCOPED_INFO(failure);
    CHECK(report.failures.empty());
    CHECK(report.checks > 60);
  }
}

}  // namespace

TEST_CASE("the tiny model gives the same bits however it is run") {
  check_all_isas(random_weights(shape_by_name("tiny"), 7), {}, 643);
}

TEST_CASE("a model whose activations stay fp32 gives the same bits however it is run") {
  testing::ExactnessOptions options;
  options.seed = 4;
  options.short_tokens = 18;
  options.long_tokens = 530;
  options.long_positions = 1;
  options.splits = 2;
  check_all_isas(random_weights(shape_by_name("tiny"), 7), options, 0, Activations::fp32);
}

TEST_CASE("a model of odd dimensions gives the same bits however it is run") {
  testing::ExactnessOptions options;
  options.seed = 3;
  check_all_isas(random_weights(odd_shape(), 8), options, 530);
}

TEST_CASE("a model of the demo's shape gives the same bits however it is run") {
  testing::ExactnessOptions options;
  options.seed = 5;
  options.short_tokens = 21;
  options.long_tokens = 605;
  options.long_positions = 2;
  options.splits = 2;
  check_all_isas(random_weights(shape_by_name("demo"), 9), options, testing::kSanitized ? 0 : 70);
}

TEST_CASE("a model of 8-bit or 4-bit weights gives the same bits however it is run") {
  testing::ExactnessOptions options;
  options.seed = 6;
  options.short_tokens = 18;
  options.long_tokens = 530;
  options.long_positions = 1;
  options.splits = 2;
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    INFO(format_name(format));
    check_all_isas(random_weights(grouped_shape(), 9, format), options, 0);
  }
}

TEST_CASE("every instruction set gives the same bits") {
  const auto check_weights = [](const std::shared_ptr<const Weights>& weights, std::int32_t n,
                                Activations activations = Activations::bf16) {
    const testing::DeviceMemory memory = testing::host_memory();
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < n; ++i) tokens.push_back(i * 31 % 203);
    std::vector<float> first;
    for (const kernels::Isa isa : kernels::supported_isas()) {
      const auto backend = cpu(weights, isa, activations)(1);
      testing::DrivenSequence sequence(*backend, memory);
      const std::vector<float> logits = sequence.run(tokens);
      if (first.empty()) first = logits;
      INFO(kernels::to_string(isa) << ", " << format_name(format_of(*weights)) << ", activations "
                                   << kernels::to_string(activations));
      CHECK(logits == first);
    }
  };
  check_weights(random_weights(odd_shape(), 10), 600);
  check_weights(random_weights(odd_shape(), 10), 60, Activations::fp32);
  check_weights(random_weights(grouped_shape(), 10, WeightFormat::int8), 60);
  check_weights(random_weights(grouped_shape(), 10, WeightFormat::int4), 60);
}

TEST_CASE("the suite notices one unit in the last place of a restored state or key") {
  for (const char* shape : {"tiny", "demo"}) {
    // Rounded activations may hide so small a change from the outputs.
    const auto make =
        cpu(random_weights(shape_by_name(shape), 11), kernels::detect_isa(), Activations::fp32);
    INFO(shape);
    CHECK(testing::detects_one_ulp(make, false));
    CHECK(testing::detects_one_ulp(make, true));
  }
}

TEST_CASE("a malformed step is refused before anything is written") {
  const auto weights = random_weights(shape_by_name("tiny"), 12);
  CpuOptions options;
  options.threads = 1;
  options.max_step_tokens = 8;
  const auto backend = make_cpu_backend(weights, options);
  const testing::DeviceMemory memory = testing::host_memory();
  const std::vector<std::int32_t> tokens{1, 2, 3};
  const auto refused = [&](auto&& spoil) {
    testing::DrivenSequence sequence(*backend, memory);
    StepSlice slice = sequence.slice(tokens, 0);
    spoil(slice);
    CHECK_THROWS_AS(backend->step({&slice, 1}), InvariantError);
  };
  const std::vector<std::int32_t> outside{1, 128};
  const std::vector<std::int32_t> many(9, 1);
  const auto state = memory.allocate(backend->layout().state_bytes);
  const std::vector<SavePoint> late{{4, state.get()}};
  const std::vector<SavePoint> disordered{{2, state.get()}, {1, state.get()}};
  refused([](StepSlice& s) { s.tokens = {}; });
  refused([&](StepSlice& s) { s.tokens = outside; });
  refused([&](StepSlice& s) { s.tokens = many; });
  refused([](StepSlice& s) { s.position = 15; });
  refused([](StepSlice& s) { s.position = -1; });
  refused([](StepSlice& s) { s.state = nullptr; });
  refused([](StepSlice& s) { s.logits_from = 3; });
  refused([&](StepSlice& s) { s.saves = late; });
  refused([&](StepSlice& s) { s.saves = disordered; });
  CHECK_THROWS_AS(make_cpu_backend(weights, CpuOptions{1, KvType::bf16, "sse9", 8}), DeviceError);
  CHECK(backend->step({}).rows == 0);
}

TEST_CASE("a step may be larger than the rows that pass through the layers together") {
  const auto weights = random_weights(shape_by_name("tiny"), 13);
  const testing::DeviceMemory memory = testing::host_memory();
  const auto backend = cpu(weights, kernels::detect_isa())(2);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 1500; ++i) tokens.push_back(i * 13 % 128);
  testing::DrivenSequence whole(*backend, memory);
  const std::vector<float> all = whole.run(tokens);
  testing::DrivenSequence first(*backend, memory);
  testing::DrivenSequence second(*backend, memory);
  const StepSlice both[] = {first.slice(tokens, 1499), second.slice(tokens, 1400)};
  const StepLogits got = backend->step(both);
  REQUIRE(got.rows == 101);
  CHECK(std::equal(got.row(0).begin(), got.row(0).end(), all.end() - 128));
  CHECK(std::equal(got.row(1).begin(), got.row(1).end(), all.begin() + 1400 * 128));
  CHECK(std::equal(got.row(100).begin(), got.row(100).end(), all.end() - 128));
}
