// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_flags.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "engine/placement/policy_names.hpp"

namespace cairn::cli {
LoadProgress progress_line() {
  if (!isatty(STDERR_FILENO)) return {};
  return [](std::string_view stage, std::uint64_t done, std::uint64_t total) {
    std::fprintf(stderr, "\rloading %.*s: %s of %s\033[K", static_cast<int>(stage.size()),
                 stage.data(), format_bytes(done).c_str(), format_bytes(total).c_str());
    if (done >= total) std::fprintf(stderr, "\r\033[K");
  };
}

void add_device_flags(CLI::App& command, EngineOptions& o) {
  command
      .add_option("--device", o.device,
                  "auto (the first CUDA device that works, else the CPU), cpu, cuda or cuda:N")
      ->capture_default_str();
  command
      .add_option(
          "--weights", o.weights,
          "Weights in memory: bf16, int8 (half the memory, other answers) or int4 (the CPU: "
          "a quarter)")
      ->capture_default_str();
  command
      .add_option(
          "--weights-cache", o.weights_cache,
          "Where the CPU's integer weights wait for the next start: auto (a file beside the "
          "model), off, or a directory")
      ->capture_default_str();
  command
      .add_option(
          "--gemm", o.gemm,
          "Matrix kernels of a CUDA device: exact, or cublaslt (NVIDIA's library, tested at "
          "first use)")
      ->capture_default_str();
  command.add_option("-t,--threads", o.threads, "Compute threads of the CPU (0: physical cores)")
      ->capture_default_str();
  command.add_option("--isa", o.isa,
                     "Of the CPU: portable, avx2 or avx512 (default: the best there is)");
  command.add_option("--kv", o.kv, "Type of cached keys and values: bf16, or f32 (the CPU)")
      ->capture_default_str();
  command
      .add_option("--activations", o.activations,
                  "What products with bf16 weights, and with keys and values in bf16, take: bf16, "
                  "rounded, or fp32 (the CPU: exact factors, half as fast)")
      ->capture_default_str();
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  EngineOptions& o = flags.options;
  command
      .add_option(
          "-m,--model", o.model,
          "A Hugging Face directory (config.json, *.safetensors, tokenizer.json), or 'demo'")
      ->capture_default_str();
  add_device_flags(command, o);
  command.add_option("--gemm-record", o.gemm_record,
                     "File of the algorithms that cublaslt was found to be exact with (default: "
                     "beside --disk-dir)");
  command.add_option("--policy", o.policy, "Where states are kept: " + engine::policy_spellings())
      ->capture_default_str();
  command.add_option(
      "--cache-bytes", flags.cache_bytes,
      "Memory for KV and states together, running requests' included, as in 512MiB or 4GiB; not 0 "
      "(default: a quarter of what is free, at most 8GiB; on a CUDA device nine tenths of what the "
      "model leaves)");
  command.add_option("--pages-ahead", flags.pages_ahead,
                     "How much of --cache-bytes the system is asked for before it is needed, while "
                     "nothing runs, as in 1GiB; the CPU (default: all; 0: nothing)");
  command.add_option("--disk-dir", o.disk_dir,
                     "Directory where cached states outlive the process; made if missing, for "
                     "this program alone (default: none)");
  command.add_option(
      "--disk-bytes", flags.disk_bytes,
      "All that may lie under --disk-dir, as in 100GiB; not 0 (default: a quarter of "
      "the free space, at most 64GiB)");
  command
      .add_option("--disk-max-age", flags.disk_max_age_seconds,
                  "Delete what was not used for so long: 90s, 30m, 12h or 7d (default: never)")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, std::int64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86'400}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"));
  command.add_option("--copy-tokens", o.copy_tokens,
                     "Charge copying a state as that many tokens of prefill, and each token alike, "
                     "so that placement decides the same on every run (default: as measured)");
  command.add_option("-c,--context-length", o.context_length, "Prompt and answer (0: the model's)")
      ->capture_default_str();
  command
      .add_option("--max-running", o.max_running,
                  "Requests computed together (0: 16 on the CPU, 64 on a CUDA device)")
      ->capture_default_str();
  command
      .add_option("--max-step-tokens", o.max_step_tokens,
                  "Tokens of one model step (0: 512 on the CPU, 2048 on a CUDA device)")
      ->capture_default_str();
  command
      .add_option("--max-step-ms", o.max_step_ms,
                  "Milliseconds of a step that running streams should wait at most while prompts "
                  "are read beside them (0: no target)")
      ->capture_default_str();
}

namespace {

std::uint64_t bytes_or_none(const std::string& option, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) throw LoadError(option + ": " + bytes.error().message);
  return *bytes;
}

}  // namespace

std::uint64_t bytes_of(const std::string& option, const std::string& text, const char* zero) {
  const std::uint64_t bytes = bytes_or_none(option, text);
  if (bytes == 0) throw LoadError(option + ": " + zero);
  return bytes;
}

EngineOptions engine_options(const EngineFlags& flags) {
  EngineOptions options = flags.options;
  if (!flags.cache_bytes.empty()) {
    options.cache_bytes =
        bytes_of("--cache-bytes", flags.cache_bytes,
                 "running requests need memory, too; leave it out for the default, or name "
                 "--policy none to keep nothing");
  }
  if (!flags.pages_ahead.empty()) {
    options.pages_ahead_bytes = bytes_or_none("--pages-ahead", flags.pages_ahead);
  }
  if (!flags.disk_bytes.empty()) {
    options.disk_bytes = bytes_of("--disk-bytes", flags.disk_bytes,
                                  "0 holds nothing; without --disk-dir there is no disk cache");
  }
  if (options.disk_dir.empty() && (options.disk_bytes > 0 || flags.disk_max_age_seconds > 0)) {
    throw LoadError("--disk-bytes and --disk-max-age need --disk-dir");
  }
  // A hundred years: far from where the count of milliseconds would wrap into a short age.
  constexpr std::int64_t kOldestSeconds = std::int64_t{36'500} * 86'400;
  if (flags.disk_max_age_seconds < 0 || flags.disk_max_age_seconds > kOldestSeconds) {
    throw LoadError("--disk-max-age: expected from 0 (never) to 36500d");
  }
  options.disk_max_age = std::chrono::seconds(flags.disk_max_age_seconds);
  options.progress = progress_line();
  return options;
}

}  // namespace cairn::cli
