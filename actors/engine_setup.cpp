// SPDX-License-Identifier: Apache-2.0
#include "actors/engine_setup.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "actors/messages.hpp"
#include "actors/open_device.hpp"
#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/version.hpp"
#include "engine/placement/policy_names.hpp"
#include "kernels/cpu/activations.hpp"
#include "metrics/metrics.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::actors {
namespace {

constexpr double kMostCopyTokens = 1e9;  // copies that never pay

void require(bool good, const std::string& name, const std::string& expected) {
  if (!good) throw LoadError(name + ": expected " + expected);
}

std::string shape_of(const model::ModelConfig& c) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "qwen3.5 %dx%d, %.3g M parameters", c.num_layers,
                c.hidden_size, static_cast<double>(c.parameters()) / 1e6);
  return text.data();
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

}  // namespace

void check_options(const EngineOptions& o) {
  std::error_code none;
  require(o.max_running >= 0 && o.max_running <= 4096, "max_running",
          "0 (the device's default) to 4096");
  require(o.max_step_tokens >= 0 && o.max_step_tokens <= 65536, "max_step_tokens",
          "0 (the device's default) to 65536");
  require(o.max_step_tokens == 0 || o.max_step_tokens >= o.max_running, "max_step_tokens",
          "at least max_running (" + std::to_string(o.max_running) + "), a row for each sequence");
  require(o.max_step_ms >= 0 && o.max_step_ms <= 3'600'000, "max_step_ms",
          "0 (no target) to 3600000");
  require(o.queue_limit >= 0, "queue_limit", "0 or more");
  require(o.queue_byte_limit >= 0, "queue_byte_limit", "0 (one prompt at a time) or more");
  require(o.queue_token_limit >= 1, "queue_token_limit", "1 or more");
  require(o.text_workers >= 1 && o.text_workers < kMaxWorkers / 2, "text_workers", "1 to 127");
  require(o.threads >= 0 && o.threads <= 1024, "threads", "0 (physical cores) to 1024");
  require(o.device == "auto" || o.device == "cpu" || o.device == "cuda" || cuda_index(o.device),
          "device", "auto, cpu, cuda or cuda:N, not '" + o.device + "'");
  require(o.gemm == "exact" || o.gemm == "cublaslt", "gemm",
          "exact or cublaslt, not '" + o.gemm + "'");
  require(model::format_named(o.weights).has_value(), "weights",
          "bf16, int8 or int4, not '" + o.weights + "'");
  require(o.device != "cpu" || o.gemm == "exact", "gemm", "exact, as the device is the CPU");
  require(o.weights != "int4" || o.device == "cpu" || o.device == "auto", "weights",
          "bf16 or int8, as the device is " + o.device + ": int4 is for the CPU");
  require(o.weights_cache == "auto" || o.weights_cache == "off" ||
              std::filesystem::is_directory(o.weights_cache, none),
          "weights_cache", "auto, off or a directory, not '" + o.weights_cache + "'");
  require(o.gemm_record.empty() || o.gemm == "cublaslt", "gemm_record",
          "nothing, as gemm is exact: only cublaslt's algorithms are kept");
  require(!std::filesystem::is_directory(o.gemm_record, none), "gemm_record",
          "a file, not the directory '" + o.gemm_record + "'");
  require(o.kv == "bf16" || o.kv == "f32", "kv", "bf16 or f32, not '" + o.kv + "'");
  require(o.kv != "f32" || o.device == "cpu" || o.device == "auto", "kv",
          "bf16, as the device is " + o.device + ": f32 is for the CPU");
  require(kernels::activations_named(o.activations).has_value(), "activations",
          "bf16 or fp32, not '" + o.activations + "'");
  require(o.activations != "fp32" || o.device == "cpu" || o.device == "auto", "activations",
          "bf16, as the device is " + o.device + ": fp32 is for the CPU");
  require(o.context_length >= 0, "context_length", "0 (the model's) or more");
  require(o.max_choices >= 1, "max_choices", "1 or more");
  require(o.forest_nodes >= 16, "forest_nodes", "16 or more");
  require(!o.pages_ahead_bytes || o.device.rfind("cuda", 0) != 0, "pages_ahead_bytes",
          "nothing with a CUDA device, which has its cache's memory from the start");
  require(!o.copy_tokens || (*o.copy_tokens >= 0 && *o.copy_tokens <= kMostCopyTokens),
          "copy_tokens", "0 to 1e9 tokens, or unset (as measured)");
  require(o.request_timeout.count() > 0, "request_timeout", "a positive time");
  require(o.disk_max_age.count() >= 0, "disk_max_age", "0 (no limit) or a positive time");
  require(o.cache_scope == "global" || o.cache_scope == "key", "cache_scope",
          "global or key, not '" + o.cache_scope + "'");
  require(o.max_cache_salt_bytes >= 0, "max_cache_salt_bytes", "0 or more");
  const auto policy = engine::parse_policy_name(o.policy);
  if (!policy.ok()) throw LoadError("policy: " + policy.error().message);
}

std::int32_t resolve_context(const EngineOptions& o, const model::ModelConfig& config) {
  if (o.context_length == 0) return config.max_position_embeddings;
  require(o.context_length <= config.max_position_embeddings, "context_length",
          "at most the model's " + std::to_string(config.max_position_embeddings));
  return o.context_length;
}

double seconds_to_copy_state(model::Backend& backend, engine::MemoryPools& pools,
                             model::Arena* arena) {
  constexpr std::int32_t kCopies = 3;  // an interrupted one is not taken for the machine's speed
  const model::MemoryLayout layout = backend.layout();
  std::optional<engine::MemoryPools> own;
  if (arena == nullptr) {
    own.emplace(layout, (kCopies + 1) * layout.state_bytes + layout.kv_block_bytes, nullptr, 0);
  }
  // Fewer are soon used up.
  const bool pages_ahead = pools.pages_ahead() / layout.state_bytes > kCopies;
  auto states = (own ? *own : pools).reserve(0, own ? kCopies + 1 : 2);
  check(states.has_value(), "states do not fit pools made for them");
  const engine::StateRef from = states->take_state();
  const auto wait = [&] {  // a device copies while the host goes on
    if (arena != nullptr) arena->finish();
  };
  backend.reset_state(from.data());
  engine::StateRef to;
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t i = 0; i < kCopies; ++i) {
    if (!to || (states->states_left() > 0 && !pages_ahead)) to = states->take_state();
    wait();
    const auto start = Clock::now();
    backend.copy_state(from.data(), to.data());
    wait();
    least = std::min(least, seconds_between(start, Clock::now()));
  }
  return least;
}

EngineInfo describe(const Shared& shared, const model::BackendInfo& backend,
                    const model::MemoryLayout& layout) {
  const EngineOptions& o = shared.options;
  EngineInfo info;
  const model::ModelConfig& config = model::config_of(*shared.bundle->weights);
  info.model_name = shared.bundle->name;
  info.shape = shape_of(config);
  info.device = backend.device;
  info.isa = backend.isa;
  info.weights = backend.weights;
  info.kv = backend.kv;
  info.activations = backend.activations;
  info.gemm = backend.gemm;
  info.policy = o.policy;
  info.cache_scope = o.cache_scope;
  info.threads = backend.threads;
  info.context_length = shared.context_length;
  info.vocab_size = config.vocab_size;
  info.cache_bytes = o.cache_bytes;
  info.state_bytes = layout.state_bytes;
  info.kv_bytes_per_token = layout.kv_bytes_per_token();
  const auto add = [&](const char* name, std::uint64_t value) {
    info.limits.emplace_back(name, std::to_string(value));
  };
  add("context_length", static_cast<std::uint64_t>(shared.context_length));
  info.limits.emplace_back("memory", format_bytes(model::allowed_memory()));
  info.limits.emplace_back("cache_bytes", format_bytes(o.cache_bytes));
  info.limits.emplace_back("pages_ahead_bytes", format_bytes(shared.pools->pages_ahead()));
  add("cache_holds_tokens_without_states", o.cache_bytes / info.kv_bytes_per_token);
  add("cache_holds_states_without_tokens", o.cache_bytes / layout.state_bytes);
  add("max_running", static_cast<std::uint64_t>(o.max_running));
  add("max_step_tokens", static_cast<std::uint64_t>(o.max_step_tokens));
  info.limits.emplace_back("max_step_ms",
                           o.max_step_ms == 0 ? "none" : std::to_string(o.max_step_ms));
  add("queue_limit", static_cast<std::uint64_t>(o.queue_limit));
  add("queue_token_limit", static_cast<std::uint64_t>(o.queue_token_limit));
  info.limits.emplace_back("queue_byte_limit",
                           format_bytes(static_cast<std::uint64_t>(o.queue_byte_limit)));
  add("max_choices", static_cast<std::uint64_t>(o.max_choices));
  add("max_logprobs", static_cast<std::uint64_t>(o.max_logprobs));
  add("max_prompt_logprobs", static_cast<std::uint64_t>(o.max_prompt_logprobs));
  add("max_stop_strings", static_cast<std::uint64_t>(o.max_stop_strings));
  add("max_cache_salt_bytes", static_cast<std::uint64_t>(o.max_cache_salt_bytes));
  add("forest_nodes", static_cast<std::uint64_t>(o.forest_nodes));
  info.limits.emplace_back("copy_tokens", o.copy_tokens ? shortest(*o.copy_tokens) : "as measured");
  add("request_timeout_ms", static_cast<std::uint64_t>(o.request_timeout.count()));
  if (shared.disk) {
    const std::uint64_t age = static_cast<std::uint64_t>(o.disk_max_age.count());
    info.disk_bytes = o.disk_bytes;
    info.limits.emplace_back("disk_dir", o.disk_dir);
    info.limits.emplace_back("disk_bytes", format_bytes(o.disk_bytes));
    info.limits.emplace_back("disk_max_age_ms", age == 0 ? "none" : std::to_string(age));
    add("disk_states_found", shared.disk->stat().states);
  }
  return info;
}

void count_limits(const EngineInfo& info, const Shared& shared) {
  const EngineOptions& o = shared.options;
  Metrics& metrics = *shared.metrics;
  metrics.set_build_info(kVersion, info.device, info.isa);
  metrics.set_model_info(info.model_name, info.shape);
  metrics.set_cache_config_info(1, o.cache_bytes, o.policy, info.kv);
  // One budget, either kind may take all of it.
  metrics.cache_bytes_limit(CacheObject::kv).set(static_cast<double>(o.cache_bytes));
  metrics.cache_bytes_limit(CacheObject::state).set(static_cast<double>(o.cache_bytes));
  const double disk = shared.disk ? static_cast<double>(o.disk_bytes) : 0.0;
  metrics.cache_bytes_limit(CacheObject::kv, Tier::disk).set(disk);
  metrics.cache_bytes_limit(CacheObject::state, Tier::disk).set(disk);
}

}  // namespace cairn::actors
