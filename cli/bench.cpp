// SPDX-License-Identifier: Apache-2.0
// cairn bench model: prefill and decode speed of the model alone, beside what the machine can do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "actors/engine_setup.hpp"
#include "actors/open_device.hpp"
#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/json_text.hpp"
#include "cli/commands.hpp"
#include "cli/engine_flags.hpp"
#include "cli/machine_limits.hpp"
#include "engine/engine.hpp"
#include "engine/model_bundle.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "model/net/backend.hpp"
#include "model/net/weights.hpp"

namespace cairn::cli {
namespace {

struct BenchFlags {
  std::string shape;
  EngineOptions options;  // the device and what it is to run
  std::vector<std::int32_t> lengths = {128, 512, 2048};
  int repeats = 3;
  std::int32_t decode_tokens = 32, decode_from = 128;
  bool json = false;

  std::int32_t most_tokens() const {
    return std::max(*std::max_element(lengths.begin(), lengths.end()), decode_from + decode_tokens);
  }
};

struct Speed {
  std::int32_t tokens = 0;
  double seconds = 0;
  double per_second() const { return tokens / seconds; }
};

// One run of decoding, and the memory reads between its tokens.
struct DecodeRun {
  Speed speed;
  double read_seconds = 0;
  int reads = 0;  // passes; none where there is nothing to compare with

  double read_gbytes() const {
    return reads * ReadBandwidth::bytes_per_pass() / read_seconds * 1e-9;
  }
};

struct Report {
  std::string name;
  std::int64_t parameters = 0;
  std::int64_t head_parameters = 0;  // of the output layer, which prefill computes for one row only
  model::BackendInfo backend;
  std::optional<MachineLimits> limits;  // of a CPU
  std::vector<Speed> prefill;
  std::vector<DecodeRun> decode;
  double decode_bytes = 0;  // that one decoded token needs: weights, state in and out, KV

  double prefill_gflops(const Speed& s) const {
    const double products = static_cast<double>(parameters - head_parameters) * s.tokens +
                            static_cast<double>(head_parameters);
    return 2 * products / s.seconds * 1e-9;
  }
  bool integer() const { return backend.weights.starts_with("int"); }
  bool rounded() const { return !integer() && backend.activations == "bf16"; }
  double limit_gops() const {
    if (integer()) return limits->int8_gops;
    return rounded() ? limits->bf16_gflops : limits->gflops;
  }
  double prefill_percent(const Speed& s) const { return 100 * prefill_gflops(s) / limit_gops(); }
  double best_decode() const {
    double best = 0;
    for (const DecodeRun& run : decode) best = std::max(best, run.speed.per_second());
    return best;
  }
  double gbytes(double tokens_per_second) const { return decode_bytes * tokens_per_second * 1e-9; }
  double share_of_reads(const DecodeRun& run) const {
    return gbytes(run.speed.per_second()) / run.read_gbytes();
  }
  // By its share of the reads; of an even number the lower one of the two in the middle.
  DecodeRun median_decode() const {
    std::vector<DecodeRun> runs = decode;
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>((runs.size() - 1) / 2);
    std::nth_element(runs.begin(), middle, runs.end(), [this](const auto& a, const auto& b) {
      return share_of_reads(a) < share_of_reads(b);
    });
    return *middle;
  }
};

// One sequence on a device, without an engine around it. Where its calls return the device is done.
class Sequence {
 public:
  Sequence(const actors::OpenDevice& device, std::int32_t most_tokens)
      : backend_(*device.backend), step_tokens_(device.room.step_tokens) {
    auto memory = device.pools->reserve(engine::blocks_for(most_tokens), 1);
    if (!memory) {
      throw LoadError(std::to_string(most_tokens) + " tokens do not fit " +
                      format_bytes(device.pools->usage().bytes_budget) + " on " +
                      backend_.info().device);
    }
    state_ = memory->take_state();
    while (memory->blocks_left() > 0) {
      held_.push_back(memory->take_block());
      blocks_.push_back(held_.back().data());
      // A server has its pages before it needs them.
      if (!device.arena) std::memset(blocks_.back(), 0, backend_.layout().kv_block_bytes);
    }
    restart();
  }
  void restart() {
    position_ = 0;
    backend_.reset_state(state_.data());
    wait();
  }
  void prefill(std::int32_t tokens) {
    while (tokens > 0) {
      const std::int32_t now = std::min(tokens, step_tokens_);
      tokens -= now;
      step(now, tokens == 0);
    }
    wait();
  }
  // One token after another, each known before the next one begins.
  void decode(std::int32_t tokens) {
    for (; tokens > 0; --tokens) {
      step(1, true);
      wait();
    }
  }

 private:
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
  void wait() {
    std::vector<model::SampledRow> none;
    backend_.sample({}, backend_.config().vocab_size, none);
  }

  model::Backend& backend_;
  std::int32_t step_tokens_;
  engine::StateRef state_;
  std::vector<engine::KvBlockRef> held_;
  std::vector<std::byte*> blocks_;
  std::vector<std::int32_t> ids_;
  std::int32_t position_ = 0;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// `reads` may be null.
DecodeRun decode(Sequence& sequence, const BenchFlags& flags, ReadBandwidth* reads) {
  constexpr std::int32_t kTokens = 4;  // between two reads
  constexpr int kPasses = 6;
  // Longer than idle threads spin: those of the model would keep a core from those that read.
  constexpr std::chrono::milliseconds kUntilAsleep{1};
  DecodeRun run;
  run.speed.tokens = flags.decode_tokens;
  const auto read = [&] {
    if (!reads) return;
    std::this_thread::sleep_for(kUntilAsleep);
    // The fastest of some: a thread that was asleep may share a core with the other for a while.
    double fastest = reads->pass();
    for (int i = 1; i < kPasses; ++i) fastest = std::min(fastest, reads->pass());
    run.read_seconds += fastest;
    ++run.reads;
    std::this_thread::sleep_for(kUntilAsleep);
  };
  sequence.restart();
  sequence.prefill(flags.decode_from);
  for (std::int32_t left = flags.decode_tokens; left > 0; left -= kTokens) {
    read();
    run.speed.seconds += seconds_of([&] { sequence.decode(std::min(left, kTokens)); });
  }
  read();
  return run;
}

void measure(const actors::OpenDevice& device, const BenchFlags& flags, ReadBandwidth* reads,
             Report& report) {
  Sequence sequence(device, flags.most_tokens());
  sequence.prefill(16);  // touches the weights once
  for (const std::int32_t length : flags.lengths) {
    double best = 1e30;
    for (int i = 0; i < flags.repeats; ++i) {
      sequence.restart();
      best = std::min(best, seconds_of([&] { sequence.prefill(length); }));
    }
    report.prefill.push_back({length, best});
  }
  for (int i = 0; i < flags.repeats; ++i) {
    report.decode.push_back(decode(sequence, flags, reads));
  }
}

std::string to_json(const Report& r) {
  JsonWriter json;
  json.begin_object().key("model").string(r.name).key("parameters").integer(r.parameters);
  json.key("device").string(r.backend.device).key("isa").string(r.backend.isa);
  json.key("weights").string(r.backend.weights).key("kv").string(r.backend.kv);
  json.key("activations").string(r.backend.activations);
  json.key("gemm").string(r.backend.gemm).key("threads").integer(r.backend.threads);
  if (r.limits) {
    json.key("limits").begin_object().key("fma_gflops").number(r.limits->gflops);
    json.key("bf16_gflops").number(r.limits->bf16_gflops);
    json.key("int8_gops").number(r.limits->int8_gops);
    json.key("read_gbytes_per_s").number(r.limits->read_gbytes_per_s).end_object();
  }
  json.key("prefill").begin_array();
  for (const Speed& s : r.prefill) {
    json.begin_object().key("tokens").integer(s.tokens);
    json.key("prefill_tokens_per_s").number(s.per_second());
    json.key("gflops").number(r.prefill_gflops(s));
    if (r.limits) {
      const char* const products = r.rounded() ? "percent_of_bf16" : "percent_of_fma";
      json.key(r.integer() ? "percent_of_int8" : products).number(r.prefill_percent(s));
    }
    json.end_object();
  }
  json.end_array().key("decode_tokens_per_s").number(r.best_decode());
  json.key("decode_gbytes_per_s").number(r.gbytes(r.best_decode()));
  json.key("decode_bytes_per_token").number(r.decode_bytes);
  if (r.limits) {
    const DecodeRun median = r.median_decode();
    json.key("percent_of_reads").number(100 * r.share_of_reads(median));
    json.key("median_decode").begin_object();
    json.key("decode_tokens_per_s").number(median.speed.per_second());
    json.key("read_gbytes_per_s").number(median.read_gbytes()).end_object();
  }
  json.end_object();
  return json.take();
}

void print(const Report& r) {
  const model::BackendInfo& on = r.backend;
  std::printf("%s, %.3g M parameters, %s, %s, weights %s, KV %s, activations %s, ", r.name.c_str(),
              static_cast<double>(r.parameters) * 1e-6, on.device.c_str(), on.isa.c_str(),
              on.weights.c_str(), on.kv.c_str(), on.activations.c_str());
  if (r.limits) {
    std::printf(
        "%d threads\nthis machine, now: fp32 %.1f GFLOP/s, bf16 %.1f GFLOP/s, int8 %.1f GOP/s, "
        "reads %.1f GB/s\n",
        on.threads, r.limits->gflops, r.limits->bf16_gflops, r.limits->int8_gops,
        r.limits->read_gbytes_per_s);
  } else {
    std::printf("GEMM %s\n", on.gemm.c_str());
  }
  for (const Speed& s : r.prefill) {
    std::printf("prefill %6d tokens  %9.1f tokens/s  %7.1f GFLOP/s", s.tokens, s.per_second(),
                r.prefill_gflops(s));
    if (r.limits) std::printf("  %5.1f %% of the limit", r.prefill_percent(s));
    std::printf("\n");
  }
  std::printf("decode                 %9.1f tokens/s  %7.1f GB/s\n", r.best_decode(),
              r.gbytes(r.best_decode()));
  if (!r.limits) return;
  const DecodeRun median = r.median_decode();
  const double rate = median.speed.per_second();
  std::printf(
      "decode, median run     %9.1f tokens/s  %7.1f GB/s     %5.1f %% of reads between its "
      "tokens, %.1f GB/s\n",
      rate, r.gbytes(rate), 100 * r.share_of_reads(median), median.read_gbytes());
}

// A CUDA device rounds to int8 what was loaded as bf16, with a scale of 16 bits a group, and leaves
// the head as it is.
double weight_bytes(const Report& r, const model::Weights& weights) {
  if (r.backend.device == "cpu" || r.backend.weights == "bf16") {
    return static_cast<double>(model::matrix_bytes(weights));
  }
  constexpr double kInt8 = 1 + 2.0 / model::kInt8Group;
  const auto head = static_cast<double>(r.head_parameters);
  return kInt8 * (static_cast<double>(r.parameters) - head) + 2 * head;
}

double state_and_kv_bytes(const model::MemoryLayout& layout, const BenchFlags& flags) {
  const double keys = flags.decode_from + flags.decode_tokens / 2.0;
  return 2 * static_cast<double>(layout.state_bytes) +
         keys * static_cast<double>(layout.kv_bytes_per_token());
}

int bench_model(const BenchFlags& flags) {
  std::shared_ptr<const model::Weights> weights;
  actors::check_options(flags.options);
  const kernels::WeightFormat format = actors::format_to_load(flags.options);
  if (flags.shape.empty()) {
    weights = engine::load_model_bundle(flags.options, format)->weights;
  } else {
    weights = model::random_weights(model::shape_by_name(flags.shape), 1, format);
  }
  const actors::OpenDevice device =
      actors::DeviceOpener(flags.options, weights, flags.most_tokens()).open();
  Report report;
  report.name = flags.shape.empty() ? flags.options.model : flags.shape;
  const model::ModelConfig& config = model::config_of(*weights);
  const std::int64_t embedding = static_cast<std::int64_t>(config.vocab_size) * config.hidden_size;
  // What a token is multiplied with: an untied embedding is only looked up.
  report.parameters = config.parameters() - (config.tie_word_embeddings ? 0 : embedding);
  report.head_parameters = embedding;
  report.backend = device.backend->info();
  report.decode_bytes =
      weight_bytes(report, *weights) + state_and_kv_bytes(device.backend->layout(), flags);
  if (report.backend.device == "cpu") {
    const kernels::Ops& ops = kernels::ops(kernels::choose_isa(report.backend.isa).value());
    kernels::ThreadPool pool(report.backend.threads);
    // Before and after, for what else runs on a shared machine.
    report.limits = measure_machine(pool, ops);
    {
      ReadBandwidth reads(pool, ops);
      measure(device, flags, &reads, report);
    }
    report.limits = best_of(*report.limits, measure_machine(pool, ops));
  } else {
    measure(device, flags, nullptr, report);
  }
  if (flags.json)
    std::printf("%s\n", to_json(report).c_str());
  else
    print(report);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  EngineOptions& o = flags->options;
  o.model.clear();
  o.device = "cpu";
  o.max_running = 1;
  o.pages_ahead_bytes = 0;
  CLI::App* command = app.add_subcommand("bench", "Speed on this machine");
  command->require_subcommand(1);
  add_bench_kernels(*command, action);
  add_bench_serve(*command, action);
  CLI::App* bench = command->add_subcommand("model", "Prefill and decode speed of a model alone");
  bench->footer(
      "Best of several runs. On the CPU, prefill is compared with a loop of its products alone,\n"
      "decoding (its median run) with memory reads between its tokens: memory that others use\n"
      "changes its speed within seconds. A model that fits the caches can exceed them.\n"
      "Example:\n  cairn bench model --shape qwen3.5-0.8b --lengths 128,512,2048 --json");
  auto* shape = bench->add_option("--shape", flags->shape,
                                  "Random weights of a published shape, e.g. qwen3.5-0.8b");
  bench->add_option("-m,--model", o.model, "A model directory, or 'demo'")->excludes(shape);
  add_device_flags(*bench, o);
  bench->get_option("--weights")->check(CLI::IsMember({"bf16", "int8", "int4"}));
  bench->get_option("--gemm")->check(CLI::IsMember({"exact", "cublaslt"}));
  bench->get_option("--threads")->check(CLI::Range(0, 1024));
  bench->get_option("--kv")->check(CLI::IsMember({"bf16", "f32"}));
  bench->get_option("--activations")->check(CLI::IsMember({"bf16", "fp32"}));
  bench->add_option("--lengths", flags->lengths, "Prompt lengths, as in 128,512,2048")
      ->delimiter(',')
      ->check(CLI::Range(1, 262144))
      ->capture_default_str();
  bench
      ->add_option("--step-tokens", o.max_step_tokens,
                   "Tokens of one step of a long prompt (0: 512 on the CPU, 2048 on a CUDA device)")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  bench->add_option("--decode-tokens", flags->decode_tokens, "Tokens to decode")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  bench->add_option("--repeats", flags->repeats, "Runs to take the best of")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench->add_flag("--json", flags->json, "Print JSON");
  bench->callback([flags, &action] {
    if (flags->shape.empty() && flags->options.model.empty()) flags->shape = "qwen3.5-0.8b";
    action = [flags] { return bench_model(*flags); };
  });
}

}  // namespace cairn::cli
