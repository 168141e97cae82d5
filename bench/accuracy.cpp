// SPDX-License-Identifier: Apache-2.0
// What rounded activations and int8 and int4 weights cost.
//   bench_accuracy TEXT_FILE     the demo model on a text that it was not trained on
//   bench_accuracy --shape NAME  random weights of that shape on random tokens: errors of logits
//   only
#include <cstdio>
#include <exception>
#include <random>
#include <string>

#include "base/bytes.hpp"
#include "bench/accuracy/accuracy.hpp"
#include "engine/model_bundle.hpp"
#include "model/net/mapped_file.hpp"

using namespace cairn;
using kernels::WeightFormat;

namespace {

constexpr std::int32_t kWindow = 1024;      // tokens read as one sequence
constexpr std::int32_t kRandomTokens = 64;  // logits of 0.8B: 1 MB a token
constexpr std::size_t kBf16 = 2;            // of the list, what a server has by default

// make(format) loads or draws the weights; only one format is in memory twice.
template <class Make>
std::vector<bench::Candidate> candidates(const Make& make) {
  std::vector<bench::Candidate> list;
  const auto add = [&](std::string name, std::shared_ptr<const model::Weights> weights,
                       model::KvType kv,
                       kernels::Activations activations = kernels::Activations::bf16) {
    std::fprintf(stderr, "%s: %s of matrices\n", name.c_str(),
                 format_bytes(model::matrix_bytes(*weights)).c_str());
    list.push_back({std::move(name), bench::make_backend(std::move(weights), kv, activations)});
  };
  const auto plain = make(WeightFormat::bf16);
  add("bf16, KV f32, activations fp32", plain, model::KvType::f32, kernels::Activations::fp32);
  add("bf16, activations fp32", plain, model::KvType::bf16, kernels::Activations::fp32);
  add("bf16", plain, model::KvType::bf16);
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    add(model::format_name(format), make(format), model::KvType::bf16);
  }
  return list;
}

void demo(const std::string& file) {
  EngineOptions options;
  const auto bundle = engine::load_model_bundle(options);
  const auto tokens = bundle->tokenizer->encode(model::read_text_file(file), false);
  std::printf("demo model, %zu tokens of %s in windows of %d\n", tokens.size(), file.c_str(),
              kWindow);
  const auto list = candidates(
      [&](WeightFormat format) { return engine::load_model_bundle(options, format)->weights; });
  std::printf("%s", bench::table_of(bench::measure_accuracy(list, tokens, kWindow), kBf16).c_str());
}

void random_shape(const std::string& name) {
  const model::ModelConfig config = model::shape_by_name(name);
  std::mt19937 random(1);
  std::vector<std::int32_t> tokens(kRandomTokens);
  for (auto& t : tokens) {
    t = static_cast<std::int32_t>(random() % static_cast<unsigned>(config.vocab_size));
  }
  std::printf("random weights of the shape %s, %d random tokens\n", name.c_str(), kRandomTokens);
  const auto list =
      candidates([&](WeightFormat format) { return model::random_weights(config, 1, format); });
  for (const bench::Accuracy& a : bench::measure_accuracy(list, tokens, kWindow)) {
    std::printf("%-31s error of logits %6.3f %%, same likeliest token %6.2f %%\n", a.name.c_str(),
                100 * a.logit_error, 100 * a.agreement);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string first = argc > 1 ? argv[1] : "";
    if (first == "--shape" && argc == 3) {
      random_shape(argv[2]);
    } else if (argc == 2 && !first.starts_with("-")) {
      demo(first);
    } else {
      std::fprintf(stderr, "usage: bench_accuracy TEXT_FILE | --shape NAME\n");
      return 1;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_accuracy: %s\n", e.what());
    return 1;
  }
  return 0;
}
