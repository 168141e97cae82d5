// SPDX-License-Identifier: Apache-2.0
// cairn bench model: prefill and decode speed of the model alone, beside what the machine can do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/commands.hpp"
#include "cli/machine_limits.hpp"
#include "engine/engine.hpp"
#include "engine/model_bundle.hpp"
#include "engine/request/json_text.hpp"
#include "kernels/cpu/packed.hpp"
#include "model/net/backend.hpp"
#include "model/net/weights.hpp"

namespace cairn::cli {
namespace {

struct BenchFlags {
  std::string shape, model, isa, kv = "bf16";
  std::vector<std::int32_t> lengths = {128, 512, 2048};
  int threads = 0, repeats = 3;
  std::int32_t step_tokens = 512, decode_tokens = 32, decode_from = 128;
  bool json = false;
};

struct Speed {
  std::int32_t tokens = 0;
  double seconds = 0;
  double per_second() const { return tokens / seconds; }
};

struct Report {
  std::string name;
  std::int64_t parameters = 0;
  std::int64_t head_parameters = 0;  // of the output layer, which prefill computes for one row only
  model::BackendInfo backend;
  MachineLimits limits;
  std::vector<Speed> prefill;
  Speed decode;
  double weight_bytes = 0;  // read for one decoded token

  double prefill_gflops(const Speed& s) const {
    const double products = static_cast<double>(parameters - head_parameters) * s.tokens +
                            static_cast<double>(head_parameters);
    return 2 * products / s.seconds * 1e-9;
  }
  double decode_gbytes() const { return weight_bytes * decode.per_second() * 1e-9; }
};

// One sequence on a backend, without an engine around it.
class Sequence {
 public:
  Sequence(model::Backend& backend, std::int32_t most_tokens)
      : backend_(backend),
        state_(backend.layout().state_bytes),
        kv_(static_cast<std::size_t>(most_tokens / model::kBlockTokens + 1) *
            backend.layout().kv_block_bytes) {
    const std::size_t block = backend.layout().kv_block_bytes;
    for (std::size_t at = 0; at + block <= kv_.size(); at += block)
      blocks_.push_back(kv_.data() + at);
    restart();
  }
  void restart() {
    position_ = 0;
    backend_.reset_state(state_.data());
  }
  void step(std::int32_t tokens, bool logits) {
    const std::int32_t vocab = std::min(backend_.config().vocab_size, 1000);
    ids_.resize(static_cast<std::size_t>(tokens));
    for (std::int32_t i = 0; i < tokens; ++i)
      ids_[static_cast<std::size_t>(i)] = (position_ + i) * 7 % vocab;
    model::StepSlice slice;
    slice.tokens = ids_;
    slice.position = position_;
    slice.kv_blocks = blocks_;
    slice.state = state_.data();
    slice.logits_from = logits ? tokens - 1 : -1;
    backend_.step({&slice, 1});
    position_ += tokens;
  }
  void prefill(std::int32_t tokens, std::int32_t step_tokens) {
    while (tokens > 0) {
      const std::int32_t now = std::min(tokens, step_tokens);
      tokens -= now;
      step(now, tokens == 0);
    }
  }

 private:
  model::Backend& backend_;
  kernels::HugeBuffer state_, kv_;
  std::vector<std::byte*> blocks_;
  std::vector<std::int32_t> ids_;
  std::int32_t position_ = 0;
};

template <class Prepare, class Work>
double best_seconds(int repeats, Prepare prepare, Work work) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    prepare();
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

void measure(model::Backend& backend, const BenchFlags& flags, Report& report) {
  const auto longest = *std::max_element(flags.lengths.begin(), flags.lengths.end());
  Sequence sequence(backend, std::max(longest, flags.decode_from + flags.decode_tokens));
  sequence.prefill(16, flags.step_tokens);  // touches the weights once
  for (const std::int32_t length : flags.lengths) {
    const double seconds = best_seconds(
        flags.repeats, [&] { sequence.restart(); },
        [&] { sequence.prefill(length, flags.step_tokens); });
    report.prefill.push_back({length, seconds});
  }
  const double seconds = best_seconds(
      flags.repeats,
      [&] {
        sequence.restart();
        sequence.prefill(flags.decode_from, flags.step_tokens);
      },
      [&] {
        for (std::int32_t i = 0; i < flags.decode_tokens; ++i) sequence.step(1, true);
      });
  report.decode = {flags.decode_tokens, seconds};
}

std::string to_json(const Report& r) {
  engine::JsonWriter json;
  json.begin_object().key("model").string(r.name).key("parameters").integer(r.parameters);
  json.key("device").string(r.backend.device).key("isa").string(r.backend.isa);
  json.key("weights").string(r.backend.weights).key("kv").string(r.backend.kv);
  json.key("threads").integer(r.backend.threads);
  json.key("limits").begin_object().key("fma_gflops").number(r.limits.gflops);
  json.key("read_gbytes_per_s").number(r.limits.read_gbytes_per_s).end_object();
  json.key("prefill").begin_array();
  for (const Speed& s : r.prefill) {
    json.begin_object()
        .key("tokens")
        .integer(s.tokens)
        .key("prefill_tokens_per_s")
        .number(s.per_second());
    json.key("gflops").number(r.prefill_gflops(s));
    json.key("percent_of_fma").number(100 * r.prefill_gflops(s) / r.limits.gflops).end_object();
  }
  json.end_array().key("decode_tokens_per_s").number(r.decode.per_second());
  json.key("decode_gbytes_per_s").number(r.decode_gbytes());
  json.key("percent_of_reads").number(100 * r.decode_gbytes() / r.limits.read_gbytes_per_s);
  json.end_object();
  return json.take();
}

void print(const Report& r) {
  std::printf("%s, %.3g M parameters, %s, %s, weights %s, KV %s, %d threads\n", r.name.c_str(),
              static_cast<double>(r.parameters) * 1e-6, r.backend.device.c_str(),
              r.backend.isa.c_str(), r.backend.weights.c_str(), r.backend.kv.c_str(),
              r.backend.threads);
  std::printf("this machine, now: %.1f GFLOP/s, reads %.1f GB/s\n", r.limits.gflops,
              r.limits.read_gbytes_per_s);
  for (const Speed& s : r.prefill)
    std::printf("prefill %6d tokens  %9.1f tokens/s  %7.1f GFLOP/s  %5.1f %% of the limit\n",
                s.tokens, s.per_second(), r.prefill_gflops(s),
                100 * r.prefill_gflops(s) / r.limits.gflops);
  std::printf("decode                 %9.1f tokens/s  %7.1f GB/s     %5.1f %% of the limit\n",
              r.decode.per_second(), r.decode_gbytes(),
              100 * r.decode_gbytes() / r.limits.read_gbytes_per_s);
}

int bench_model(const BenchFlags& flags) {
  std::shared_ptr<const model::Weights> weights;
  if (flags.model.empty()) {
    weights = model::random_weights(model::shape_by_name(flags.shape), 1);
  } else {
    EngineOptions options;
    options.model = flags.model;
    weights = engine::load_model_bundle(options)->weights;
  }
  model::CpuOptions cpu;
  cpu.threads = flags.threads;
  cpu.isa = flags.isa;
  cpu.kv = flags.kv == "f32" ? model::KvType::f32 : model::KvType::bf16;
  cpu.max_step_tokens = flags.step_tokens;
  const auto backend = model::make_cpu_backend(weights, cpu);
  Report report;
  report.name = flags.model.empty() ? flags.shape : flags.model;
  const model::ModelConfig& config = model::config_of(*weights);
  const std::int64_t embedding = static_cast<std::int64_t>(config.vocab_size) * config.hidden_size;
  // What a token is multiplied with: an untied embedding is only looked up.
  report.parameters = config.parameters() - (config.tie_word_embeddings ? 0 : embedding);
  report.head_parameters = embedding;
  report.backend = backend->info();
  report.weight_bytes =
      static_cast<double>(report.parameters) * (report.backend.weights == "bf16" ? 2 : 4);
  report.limits = measure_machine(report.backend.threads, report.backend.isa);
  measure(*backend, flags, report);
  if (flags.json)
    std::printf("%s\n", to_json(report).c_str());
  else
    print(report);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Speed on this machine");
  command->require_subcommand(1);
  CLI::App* bench = command->add_subcommand("model", "Prefill and decode speed of a model alone");
  bench->footer(
      "Best of several runs, compared with multiply-adds and memory reads measured in the same "
      "run.\nA model that fits the caches can exceed the limit of reads.\n"
      "Example:\n  cairn bench model --shape qwen3.5-0.8b --lengths 128,512,2048 --json");
  auto* shape = bench->add_option("--shape", flags->shape,
                                  "Random weights of a published shape, e.g. qwen3.5-0.8b");
  bench->add_option("-m,--model", flags->model, "A model directory, or 'demo'")->excludes(shape);
  bench->add_option("--weights", "Type of the weights")->check(CLI::IsMember({"bf16"}));
  bench->add_option("-t,--threads", flags->threads, "Compute threads (0: physical cores)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  bench->add_option("--isa", flags->isa, "portable, avx2 or avx512 (default: the best there is)");
  bench->add_option("--kv", flags->kv, "bf16 or f32")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  bench->add_option("--lengths", flags->lengths, "Prompt lengths, as in 128,512,2048")
      ->delimiter(',')
      ->check(CLI::Range(1, 262144))
      ->capture_default_str();
  bench->add_option("--step-tokens", flags->step_tokens, "Tokens of one step of a long prompt")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  bench->add_option("--decode-tokens", flags->decode_tokens, "Tokens to decode")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  bench->add_option("--repeats", flags->repeats, "Runs to take the best of")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench->add_flag("--json", flags->json, "Print JSON");
  bench->callback([flags, &action] {
    if (flags->shape.empty() && flags->model.empty()) flags->shape = "qwen3.5-0.8b";
    action = [flags] { return bench_model(*flags); };
  });
}

}  // namespace cairn::cli
