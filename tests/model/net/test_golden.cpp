// SPDX-License-Identifier: Apache-2.0
// The tiny checkpoint against recorded fp64 outputs of an independent implementation.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/isa.hpp"
#include "model/net/cpu_backend.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net/golden.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness_sequence.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::testing::doubles;
using cairn::testing::DrivenSequence;
using cairn::testing::ints;
using cairn::testing::kTiny;

namespace {

constexpr double kF32Bound = 2e-5;      // fp32 arithmetic against fp64; measured 2.9e-6
constexpr double kLayerBound = 5e-5;    // of a residual stream; measured 2.3e-5
constexpr double kBf16Bound = 2e-3;     // keys and values with 8 bits of mantissa; measured 4.8e-4
constexpr double kRoundedBound = 2e-1;  // activations with 8 bits as well; measured 6.2e-2

template <class A, class B>
double max_difference(const A& a, const B& b) {
  REQUIRE(std::size(a) == std::size(b));
  double worst = 0;
  for (std::size_t i = 0; i < std::size(a); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return worst;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::size_t argmax(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// One recorded prompt, run as a whole with a tap on the layers.
struct Run {
  std::vector<float> logits;                     // [tokens, vocab]
  std::vector<std::vector<float>> layer_output;  // of the last row, per layer
  std::vector<float> state;
  std::vector<std::int32_t> greedy;
};

Run run_prompt(CpuBackend& backend, const std::vector<std::int32_t>& ids) {
  const testing::DeviceMemory memory = testing::host_memory();
  Run out;
  const auto hidden = static_cast<std::size_t>(backend.config().hidden_size);
  backend.set_layer_tap([&](std::int32_t, const Tile& tile, const float* x, std::int64_t ld) {
    const float* const row = x + (tile.rows - 1) * ld;
    out.layer_output.emplace_back(row, row + hidden);
  });
  DrivenSequence sequence(backend, memory);
  out.logits = sequence.run(ids);
  out.state = floats_of(sequence.state_bytes());
  backend.set_layer_tap({});
  const auto vocab = static_cast<std::size_t>(backend.config().vocab_size);
  std::vector<float> row(out.logits.end() - static_cast<std::ptrdiff_t>(vocab), out.logits.end());
  for (int i = 0; i < 16; ++i) {
    out.greedy.push_back(static_cast<std::int32_t>(argmax(row)));
    row = sequence.run({&out.greedy.back(), 1});
  }
  return out;
}

void check_states(const Run& run, const ModelConfig& c, const json::Value& g) {
  const auto dv = static_cast<std::size_t>(c.linear_value_dim);
  const std::size_t head = static_cast<std::size_t>(c.linear_key_dim) * dv;
  const std::size_t matrices = head * static_cast<std::size_t>(c.linear_value_heads);
  const auto cd = static_cast<std::size_t>(c.conv_channels());
  const CpuStateLayer layout = cpu_state_layer(c);
  const std::size_t layer = layout.bytes / sizeof(float);
  REQUIRE(run.state.size() == 3 * layer);
  std::vector<float> state = run.state;  // with S as it is once multiplied
  const auto groups = static_cast<std::size_t>(kernels::delta_groups(c.linear_value_dim));
  for (std::size_t l = 0; l < 3; ++l) {
    for (std::size_t i = 0; i < matrices; ++i) {
      state[l * layer + i] *=
          run.state[l * layer + layout.pending / sizeof(float) + i / head * groups];
    }
  }
  const auto sums = doubles(*g.find("gdn_S_sum"));
  const auto largest = doubles(*g.find("gdn_S_absmax"));
  for (std::size_t l = 0; l < 3; ++l) {
    double sum = 0;
    double most = 0;
    for (std::size_t i = 0; i < matrices; ++i) {
      sum += state[l * layer + i];
      most = std::max(most, std::abs(static_cast<double>(state[l * layer + i])));
    }
    CHECK(std::abs(sum - sums[l]) < 10 * kF32Bound);  // a sum of a thousand values
    CHECK(std::abs(most - largest[l]) < kF32Bound);
  }
  const auto row = [&](std::size_t at, std::size_t n) { return std::span(state).subspan(at, n); };
  CHECK(max_difference(row(0, dv), doubles(*g.find("gdn_S_l0_h0_row0"))) < kF32Bound);
  CHECK(max_difference(row(3 * head + 5 * dv, dv), doubles(*g.find("gdn_S_l0_h3_row5"))) <
        kF32Bound);
  for (std::size_t tap = 0; tap < 3; ++tap) {
    CHECK(max_difference(row(matrices + tap * cd, 4),
                         doubles(g.find("conv_l0_last3_first4")->items()[tap])) < kF32Bound);
  }
}

}  // namespace

TEST_CASE("the tiny checkpoint gives the recorded logits, layer outputs and states") {
  const json::Value all = testing::golden();
  const auto weights = load_weights(kTiny);
  for (const kernels::Isa isa : kernels::supported_isas()) {
    CpuOptions options;
    options.threads = 2;
    options.kv = KvType::f32;
    options.activations = kernels::Activations::fp32;
    options.isa = kernels::to_string(isa);
    CpuBackend backend(weights, options);
    for (const std::string name : {"short12", "long70"}) {
      INFO(name << " on " << options.isa);
      const json::Value& g = *all.find(name);
      const Run run = run_prompt(backend, ints(*g.find("ids")));
      const auto vocab = static_cast<std::size_t>(backend.config().vocab_size);
      const auto last = std::span(run.logits).last(vocab);
      const double worst = max_difference(last, doubles(*g.find("logits_last")));
      UNSCOPED_INFO("largest logit difference " << worst);
      CHECK(worst < kF32Bound);
      for (std::size_t l = 0; l < run.layer_output.size(); ++l) {
        CHECK(max_difference(std::span(run.layer_output[l]).first(8),
                             doubles(g.find("layer_out_last_first8")->items()[l])) < kLayerBound);
      }
      check_states(run, backend.config(), g);
      if (name == "short12") continue;  // its two best logits lie 2.7e-5 apart: no arg-max is asked
      std::vector<std::int32_t> best;
      for (std::size_t at = 0; at < run.logits.size(); at += vocab) {
        best.push_back(static_cast<std::int32_t>(argmax(std::span(run.logits).subspan(at, vocab))));
      }
      CHECK(best == ints(*g.find("argmax_each")));
      CHECK(run.greedy == ints(*g.find("greedy16")));
    }
  }
}

TEST_CASE("rounding to bf16 moves the tiny checkpoint's logits by less than its bound") {
  const json::Value all = testing::golden();
  CpuOptions plain;
  plain.activations = kernels::Activations::fp32;
  CpuBackend backend(load_weights(kTiny), plain);
  CpuBackend rounding(load_weights(kTiny), CpuOptions{});
  for (const std::string name : {"short12", "long70"}) {
    const json::Value& g = *all.find(name);
    const Run run = run_prompt(backend, ints(*g.find("ids")));
    const double worst = max_difference(
        std::span(run.logits).last(static_cast<std::size_t>(backend.config().vocab_size)),
        doubles(*g.find("logits_last")));
    INFO(name << ": largest logit difference " << worst);
    CHECK(worst < kBf16Bound);
    CHECK(worst > 0);
    const Run rounded = run_prompt(rounding, ints(*g.find("ids")));
    const double most = max_difference(
        std::span(rounded.logits).last(static_cast<std::size_t>(backend.config().vocab_size)),
        doubles(*g.find("logits_last")));
    INFO(name << ": largest logit difference of rounded activations " << most);
    CHECK(most < kRoundedBound);
    CHECK(most > worst);
  }
}
