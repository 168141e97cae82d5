// SPDX-License-Identifier: Apache-2.0
// cairn bench kernels: each CPU kernel beside what this machine can do at best.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/json_text.hpp"
#include "cli/commands.hpp"
#include "cli/kernel_cases.hpp"
#include "cli/machine_limits.hpp"
#include "kernels/cpu/peaks.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kColdBytes = std::size_t{384} << 20;  // some times the largest cache
constexpr int kMinSamples = 4;
constexpr double kSampleSeconds = 20e-6;  // the clock's own time is lost in it

struct KernelFlags {
  std::string shape = "qwen3.5-0.8b";
  std::string isa;
  int threads = 0;
  std::vector<std::int64_t> rows = {1, 4, 8, 64, 512};
  std::vector<std::int64_t> contexts = {512, 2048, 16384};
  std::vector<std::string> kernels;
  double seconds = 0.1;
  bool quick = false;
  bool json = false;
};

struct Result {
  KernelCase done;
  double seconds = 0;  // of a call

  double gops() const { return done.operations / seconds * 1e-9; }
  double gbytes() const { return done.bytes / seconds * 1e-9; }
  /// Of the units that do the operations.
  double peak(const MachineLimits& m) const {
    switch (done.arithmetic) {
      case Arithmetic::integer_products:
        return m.int8_gops;
      case Arithmetic::rounded_products:
        return m.bf16_gflops;
      default:
        return m.gflops;
    }
  }
  /// The least that the operations and the bytes take.
  double compute_seconds(const MachineLimits& m) const { return done.operations * 1e-9 / peak(m); }
  double memory_seconds(const MachineLimits& m) const {
    return done.bytes * 1e-9 / m.read_gbytes_per_s;
  }
  bool computes(const MachineLimits& m) const { return compute_seconds(m) > memory_seconds(m); }
  double percent(const MachineLimits& m) const {
    return 100 * std::max(compute_seconds(m), memory_seconds(m)) / seconds;
  }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds of a call: the best of samples, because other work on the machine only ever adds time.
double time_of(const KernelCase& one, double budget) {
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t round = 0;
  std::int64_t calls = 1;  // of a sample
  double best = 1e30;
  for (int samples = 0; samples < kMinSamples || seconds_since(begin) < budget;) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < calls; ++i) one.work(round++);
    const double seconds = seconds_since(start);
    if (seconds < kSampleSeconds && calls < (1 << 20)) {
      calls *= 2;
      continue;
    }
    if (samples++ > 0 || seconds > budget) {  // the first one touches memory
      best = std::min(best, seconds / static_cast<double>(calls));
    }
  }
  return best;
}

void print_head(const KernelFlags& flags, const KernelBench& on, const MachineLimits& m) {
  std::printf("%s, %s, %d threads\n", flags.shape.c_str(), kernels::to_string(on.ops.isa),
              on.pool.threads());
  std::printf(
      "this machine, now: fp32 multiply-adds %.1f GFLOP/s, rounded products (%s) %.1f GFLOP/s, %s "
      "%.1f GOP/s, reads %.1f GB/s\n",
      m.gflops, kernels::rounded_product_instruction(on.ops.isa), m.bf16_gflops,
      kernels::dot_product_instruction(on.ops.isa), m.int8_gops, m.read_gbytes_per_s);
  std::printf("%-13s %-34s %5s %7s %11s %9s %8s  %s\n", "kernel", "shape", "rows", "context",
              "us a call", "GOP/s", "GB/s", "share of the limit");
}

void print(const Result& r, const MachineLimits& m) {
  const KernelCase& c = r.done;
  const std::string context = c.context > 0 ? std::to_string(c.context) : "";
  std::printf("%-13s %-34s %5lld %7s %11.1f", c.kernel.c_str(), c.shape.c_str(),
              static_cast<long long>(c.rows), context.c_str(), r.seconds * 1e6);
  if (c.operations > 0) {
    std::printf(" %9.1f", r.gops());
  } else {
    std::printf(" %9s", "");
  }
  std::printf(" %8.1f  %5.1f %% of %s\n", r.gbytes(), r.percent(m),
              !r.computes(m)                              ? "reads"
              : c.arithmetic == Arithmetic::multiply_adds ? "multiply-adds"
                                                          : "products");
  std::fflush(stdout);
}

std::string to_json(const KernelFlags& flags, const KernelBench& on, const MachineLimits& m,
                    const std::vector<Result>& results) {
  JsonWriter json;
  json.begin_object().key("shape").string(flags.shape);
  json.key("isa").string(kernels::to_string(on.ops.isa));
  json.key("threads").integer(on.pool.threads());
  json.key("limits").begin_object().key("fma_gflops").number(m.gflops);
  json.key("bf16_gflops").number(m.bf16_gflops).key("bf16_instruction");
  json.string(kernels::rounded_product_instruction(on.ops.isa));
  json.key("int8_gops").number(m.int8_gops).key("int8_instruction");
  json.string(kernels::dot_product_instruction(on.ops.isa));
  json.key("read_gbytes_per_s").number(m.read_gbytes_per_s).end_object();
  json.key("kernels").begin_array();
  for (const Result& r : results) {
    json.begin_object().key("kernel").string(r.done.kernel).key("shape").string(r.done.shape);
    json.key("rows").integer(r.done.rows).key("context").integer(r.done.context);
    json.key("calls_a_pass").integer(r.done.calls).key("microseconds").number(r.seconds * 1e6);
    json.key("operations").number(r.done.operations).key("bytes").number(r.done.bytes);
    json.key("gops").number(r.gops()).key("gbytes_per_s").number(r.gbytes());
    json.key("bound").string(r.computes(m) ? "compute" : "memory");
    json.key("percent_of_bound").number(r.percent(m)).end_object();
  }
  return json.end_array().end_object().take();
}

// A flag's list without repetitions; what the cases count on.
std::vector<std::int64_t> ascending(std::vector<std::int64_t> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

int bench_kernels(const KernelFlags& flags) {
  const auto isa = kernels::choose_isa(flags.isa);
  if (!isa) throw LoadError(isa.error().message);
  const model::ModelConfig shape = model::shape_by_name(flags.shape);
  kernels::ThreadPool pool(flags.threads > 0 ? flags.threads : model::default_threads());
  kernels::HugeBuffer arena(flags.quick ? 0 : kColdBytes);
  const KernelBench on{.ops = kernels::ops(*isa),
                       .pool = pool,
                       .shape = shape,
                       .rows = ascending(flags.rows),
                       .contexts = ascending(flags.contexts),
                       .kernels = flags.kernels,
                       .arena = {arena.data(), arena.size()}};
  const MachineLimits limits = measure_machine(pool, on.ops);
  if (!flags.json) print_head(flags, on, limits);
  std::vector<Result> results;
  const bool progress = flags.json && isatty(STDERR_FILENO) != 0;
  const auto take = [&](const KernelCase& one) {
    if (progress) {
      std::fprintf(stderr, "\r%zu timed, now %s %s, %lld rows\033[K", results.size(),
                   one.kernel.c_str(), one.shape.c_str(), static_cast<long long>(one.rows));
    }
    results.push_back({one, time_of(one, flags.quick ? 0 : flags.seconds)});
    results.back().done.work = nullptr;  // its operands end with this call
    if (!flags.json) print(results.back(), limits);
  };
  for (const auto cases :
       {product_cases, row_cases, recurrence_cases, attention_cases, sampling_cases}) {
    cases(on, take);
  }
  if (progress) std::fprintf(stderr, "\r\033[K");
  if (flags.json) std::printf("%s\n", to_json(flags, on, limits, results).c_str());
  return 0;
}

}  // namespace

void add_bench_kernels(CLI::App& bench, Action& action) {
  auto flags = std::make_shared<KernelFlags>();
  CLI::App* command =
      bench.add_subcommand("kernels", "Each CPU kernel beside what this machine can do at best");
  command->footer(
      "Best of several runs, operands that no cache holds. A limit is the longer of two times: "
      "the operations at the\nspeed of a loop of nothing else, and the bytes at the speed of "
      "streaming reads, both measured in the same run.\n"
      "Example:\n  cairn bench kernels --kernels gemm,attention --rows 1,512 --threads 2");
  command->add_option("--shape", flags->shape, "A published shape")->capture_default_str();
  command
      ->add_option("--kernels", flags->kernels,
                   "Only these of: " + CLI::detail::join(kernel_names()))
      ->delimiter(',')
      ->check(CLI::IsMember(kernel_names()));
  command->add_option("--rows", flags->rows, "Tokens of a call, as in 1,64")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--contexts", flags->contexts, "Keys that attention's last row sees")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "Threads (0: physical cores)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--isa", flags->isa, "portable, avx2 or avx512 (default: the best there is)");
  command->add_option("--seconds", flags->seconds, "Time for each kernel and shape")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  command->add_flag("--quick", flags->quick, "A few runs of each, from the caches: a check only");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags, &action] { action = [flags] { return bench_kernels(*flags); }; });
}

}  // namespace cairn::cli
