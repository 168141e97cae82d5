// SPDX-License-Identifier: Apache-2.0
// The embedded demo model against logits recorded with transformers
// (scripts/demo/check_transformers.py).
#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "kernels/cpu/isa.hpp"
#include "model/demo/embedded.hpp"
#include "model/net/backend.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness_sequence.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::testing::DrivenSequence;

namespace {

constexpr double kF32Bound =
    1e-4;  // two fp32 implementations, recorded to 5 digits; measured 1.6e-5
constexpr double kBf16Bound =
    3e-2;  // keys and values in bf16; measured 1.4e-2 (random ids), else 5e-3
constexpr double kRoundedBound =
    2e-1;  // activations rounded to bf16 too; measured 9.5e-2 (one token), else 5.4e-2

std::shared_ptr<const Weights> demo_weights() {
  std::vector<MemoryFile> files;
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    const std::string_view content = demo::file(name);
    files.push_back({name, std::as_bytes(std::span(content))});
  }
  return load_weights(files);
}

std::vector<std::int32_t> ints(const json::Value& v) {
  std::vector<std::int32_t> out;
  for (const json::Value& item : v.items()) out.push_back(static_cast<std::int32_t>(item.as_int()));
  return out;
}

json::Value recorded() {
  return json::parse(testing::read_file(std::string(CAIRN_FIXTURES) + "/demo_logits.json")).take();
}

// Largest distance of last logits, maxima and log-sums from the recorded ones; arg-maxima are
// compared where the recorded gap between first and second leaves no doubt.
double compare(const json::Value& list, std::span<const float> logits, std::size_t vocab) {
  const std::size_t rows = logits.size() / vocab;
  double worst = 0;
  const auto differ = [&](double got, const json::Value& wanted) {
    worst = std::max(worst, std::abs(got - wanted.as_double()));
  };
  const auto last = logits.last(vocab);
  for (std::size_t i = 0; i < vocab; ++i) {
    differ(last[i], list.find("logits_last")->items()[i]);
  }
  std::vector<std::int32_t> best;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto x = logits.subspan(row * vocab, vocab);
    const auto at = std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v));
    best.push_back(static_cast<std::int32_t>(at - x.begin()));
    differ(*at, list.find("max_each")->items()[row]);
    differ(std::log(sum), list.find("logsumexp_each")->items()[row]);
  }
  if (list.find("smallest_top_gap")->as_double() > 2 * worst) {
    CHECK(best == ints(*list.find("argmax_each")));
  }
  return worst;
}

double worst_of_all(const json::Value& all, Backend& backend) {
  const testing::DeviceMemory memory = testing::host_memory();
  const auto vocab = static_cast<std::size_t>(backend.config().vocab_size);
  double worst = 0;
  for (const auto& [name, list] : all.find("prefill")->members()) {
    DrivenSequence sequence(backend, memory);
    const double difference = compare(list, sequence.run(ints(*list.find("ids"))), vocab);
    UNSCOPED_INFO(name << ": " << difference);
    worst = std::max(worst, difference);
  }
  return worst;
}

}  // namespace

TEST_CASE("the demo model gives the logits that transformers gives") {
  const json::Value all = recorded();
  REQUIRE(all.find("prefill")->members().size() >= 5);
  const auto weights = demo_weights();
  for (const kernels::Isa isa : kernels::supported_isas()) {
    CpuOptions options;
    options.kv = KvType::f32;
    options.activations = kernels::Activations::fp32;
    options.isa = kernels::to_string(isa);
    const auto backend = make_cpu_backend(weights, options);
    const double worst = worst_of_all(all, *backend);
    INFO(options.isa << ", fp32 keys and values: " << worst);
    CHECK(worst < kF32Bound);
  }
  for (const kernels::Activations activations :
       {kernels::Activations::fp32, kernels::Activations::bf16}) {
    CpuOptions options;
    options.activations = activations;
    const auto backend = make_cpu_backend(weights, options);
    const double worst = worst_of_all(all, *backend);
    INFO("bf16 keys and values, activations " << kernels::to_string(activations) << ": " << worst);
    CHECK(worst < (activations == kernels::Activations::fp32 ? kBf16Bound : kRoundedBound));
  }
}

TEST_CASE("the demo model continues as it does in transformers") {
  const json::Value all = recorded();
  const auto backend = make_cpu_backend(demo_weights(), CpuOptions{});
  const testing::DeviceMemory memory = testing::host_memory();
  const auto vocab = static_cast<std::ptrdiff_t>(backend->config().vocab_size);
  REQUIRE_FALSE(all.find("greedy")->items().empty());
  for (const json::Value& g : all.find("greedy")->items()) {
    DrivenSequence sequence(*backend, memory);
    std::vector<float> row = sequence.run(ints(*g.find("ids")));
    const std::vector<std::int32_t> wanted = ints(*g.find("tokens"));
    std::vector<std::int32_t> made;
    while (made.size() < wanted.size()) {
      const auto begin = row.end() - vocab;
      made.push_back(static_cast<std::int32_t>(std::max_element(begin, row.end()) - begin));
      row = sequence.run({&made.back(), 1});
    }
    INFO(g.find("prompt")->text());
    CHECK(made == wanted);
  }
}
