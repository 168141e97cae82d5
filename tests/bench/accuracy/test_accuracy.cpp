// SPDX-License-Identifier: Apache-2.0
// What int8 and int4 weights may cost, on text that the demo model was not trained on.
#include <cmath>
#include <functional>

#include "bench/accuracy/accuracy.hpp"
#include "engine/model_bundle.hpp"
#include "model/net/mapped_file.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using kernels::WeightFormat;
using model::KvType;

namespace {

std::vector<bench::Candidate> all_formats(
    const std::function<std::shared_ptr<const model::Weights>(WeightFormat)>& make) {
  std::vector<bench::Candidate> list;
  const auto plain = make(WeightFormat::bf16);
  list.push_back(
      {"reference", bench::make_backend(plain, KvType::f32, kernels::Activations::fp32)});
  list.push_back({"bf16", bench::make_backend(plain, KvType::bf16)});
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    list.push_back({model::format_name(format), bench::make_backend(make(format), KvType::bf16)});
  }
  return list;
}

}  // namespace

TEST_CASE("int8 and int4 weights cost the demo model 1 and 5 percent of perplexity at most") {
  const EngineOptions options;
  const auto bundle = engine::load_model_bundle(options);
  auto tokens = bundle->tokenizer->encode(
      model::read_text_file(std::string(CAIRN_FIXTURES) + "/demo_held_out.txt"), false);
  REQUIRE(tokens.size() > 4000);
  tokens.resize(1024);
  const auto list =
      bench::measure_accuracy(all_formats([&](WeightFormat format) {
                                return engine::load_model_bundle(options, format)->weights;
                              }),
                              tokens, 512);
  INFO(bench::table_of(list, 1));
  CHECK(list[0].perplexity > 30);  // it knows next to nothing; e^3.98 on all that was held out
  CHECK(list[0].perplexity < 90);
  CHECK(list[0].agreement == 1);
  CHECK(list[0].logit_error == 0);
  CHECK(std::abs(list[1].perplexity / list[0].perplexity - 1) < 0.001);
  CHECK(std::abs(list[2].perplexity / list[1].perplexity - 1) < 0.01);
  CHECK(std::abs(list[3].perplexity / list[1].perplexity - 1) < 0.05);
  // Near ties change sides: rounding alone, multiplied in fp32, gives 0.99 and 0.83.
  CHECK(list[2].agreement >= 0.965);
  CHECK(list[3].agreement >= 0.80);
  CHECK(list[2].sure_agreement >= 0.99);
  CHECK(list[3].sure_agreement >= 0.90);
}

TEST_CASE("the error of a random model's logits grows with each bit that is left out") {
  const auto shape = model::shape_by_name("demo");
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 64; ++i) tokens.push_back(i * 61 % 4000);
  auto list =
      all_formats([&](WeightFormat format) { return model::random_weights(shape, 3, format); });
  list.push_back(
      {"another model", bench::make_backend(model::random_weights(shape, 4), KvType::bf16)});
  const auto got = bench::measure_accuracy(list, tokens, 64);
  INFO(bench::table_of(got, 1));
  CHECK(got[1].logit_error > 0);
  CHECK(got[2].logit_error > got[1].logit_error);
  CHECK(got[3].logit_error > 3 * got[2].logit_error);
  CHECK(got[2].logit_error < 0.08);
  CHECK(got[3].logit_error < 0.6);
  CHECK(got[4].logit_error > 1);
  CHECK(got[4].agreement < 0.1);
}
