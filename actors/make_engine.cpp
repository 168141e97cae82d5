// SPDX-License-Identifier: Apache-2.0
// The public API on top of the actors.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "actors/admin.hpp"
#include "actors/disk_tier.hpp"
#include "actors/runtime.hpp"
#include "actors/testing.hpp"
#include "actors/wrap_backend.hpp"
#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "engine/engine.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/request/cache_scope.hpp"
#include "engine/request/validate.hpp"
#include "metrics/metrics.hpp"
#include "model/net/memory_layout.hpp"

namespace cairn {
namespace {

using actors::Clock;

constexpr std::chrono::milliseconds kLeastTimeout{1};
constexpr std::chrono::milliseconds kMostTimeout{std::chrono::hours(24 * 365)};
constexpr std::uint64_t kDefaultCacheCap = 8ULL << 30U;

// MemAvailable of /proc/meminfo, which counts what the page cache would give back.
std::uint64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::int64_t prompt_bytes(const Prompt& prompt) {
  std::size_t bytes = 0;
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) bytes = 4 * ids->size();
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) bytes = text->text.size();
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    bytes = chat->messages_json.size() + chat->tools_json.size();
  }
  return static_cast<std::int64_t>(bytes);
}

void require(bool good, const std::string& name, const std::string& expected) {
  if (!good) throw LoadError(name + ": expected " + expected);
}

void check_options(const EngineOptions& o) {
  require(o.max_running >= 1 && o.max_running <= 4096, "max_running", "1 to 4096");
  require(o.max_step_tokens >= 1 && o.max_step_tokens <= 65536, "max_step_tokens", "1 to 65536");
  require(o.max_step_tokens >= o.max_running, "max_step_tokens",
          "at least max_running (" + std::to_string(o.max_running) + "), a row for each sequence");
  require(o.queue_limit >= 0, "queue_limit", "0 or more");
  require(o.queue_token_limit >= 1, "queue_token_limit", "1 or more");
  require(o.text_workers >= 1 && o.text_workers < actors::kMaxWorkers / 2, "text_workers",
          "1 to 127");
  require(o.threads >= 0 && o.threads <= 1024, "threads", "0 (physical cores) to 1024");
  require(o.kv == "bf16" || o.kv == "f32", "kv", "bf16 or f32, not '" + o.kv + "'");
  require(o.context_length >= 0, "context_length", "0 (the model's) or more");
  require(o.max_choices >= 1, "max_choices", "1 or more");
  require(o.forest_nodes >= 16, "forest_nodes", "16 or more");
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

std::string shape_of(const model::ModelConfig& c) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "qwen3.5 %dx%d, %.3g M parameters", c.num_layers,
                c.hidden_size, static_cast<double>(c.parameters()) / 1e6);
  return text.data();
}

class ActorEngine final : public Engine {
 public:
  ActorEngine(EngineOptions options, std::shared_ptr<Metrics> metrics);
  ~ActorEngine() override { close(std::chrono::seconds(2)); }

  Result<RequestId> submit(GenerateRequest request, EventSink sink) override;
  void cancel(RequestId id) override;
  Result<std::vector<std::int32_t>> tokenize(const Prompt& prompt) const override;
  Result<std::string> detokenize(std::span<const std::int32_t> tokens, bool skip) const override;
  std::string token_bytes(std::int32_t token) const override;
  const EngineInfo& info() const override { return info_; }
  EngineStats stats() const override;
  Health health() const override;
  Result<DroppedCache> drop_cache(std::chrono::milliseconds timeout) override {
    return admin_.drop_cache(*runtime_, timeout);
  }
  Result<std::string> plan_json(std::chrono::milliseconds timeout) override {
    return admin_.plan_json(*runtime_, timeout);
  }
  std::vector<std::string> close(std::chrono::milliseconds deadline) override;

  actors::Runtime& runtime() { return *runtime_; }

 private:
  std::unique_ptr<model::Backend> make_backend();
  void make_pools(const model::MemoryLayout& layout);
  void open_disk(const model::BackendInfo& backend, const model::MemoryLayout& layout);
  void fill_info(const model::BackendInfo& backend, const model::MemoryLayout& layout);
  model::KvType kv_type() const;
  engine::RequestLimits limits() const;

  std::shared_ptr<actors::Shared> shared_ = std::make_shared<actors::Shared>();
  EngineInfo info_;
  std::unique_ptr<actors::Runtime> runtime_;
  actors::Admin admin_;
  std::atomic<RequestId> next_id_{1};
  std::mutex close_mutex_;
  bool closed_ = false;
};

ActorEngine::ActorEngine(EngineOptions options, std::shared_ptr<Metrics> metrics) {
  check_options(options);
  shared_->options = std::move(options);
  shared_->metrics = metrics ? std::move(metrics) : std::make_shared<Metrics>();
  shared_->bundle = engine::load_model_bundle(shared_->options);
  shared_->context_length =
      resolve_context(shared_->options, model::config_of(*shared_->bundle->weights));
  // The first backend is made here, so that a device that cannot be used is told to the caller at
  // once.
  auto first = std::make_shared<std::unique_ptr<model::Backend>>(make_backend());
  const model::BackendInfo backend = (*first)->info();
  const model::MemoryLayout layout = (*first)->layout();
  shared_->make_backend = [this, first] { return *first ? std::move(*first) : make_backend(); };
  make_pools(layout);
  open_disk(backend, layout);
  fill_info(backend, layout);
  shared_->request_limits = limits();
  runtime_ = std::make_unique<actors::Runtime>(shared_);
}

std::unique_ptr<model::Backend> ActorEngine::make_backend() {
  model::CpuOptions cpu;
  cpu.threads = shared_->options.threads;
  cpu.isa = shared_->options.isa;
  cpu.kv = kv_type();
  cpu.max_step_tokens = shared_->options.max_step_tokens;
  return actors::wrapped(model::make_cpu_backend(shared_->bundle->weights, cpu));
}

void ActorEngine::make_pools(const model::MemoryLayout& layout) {
  std::uint64_t& bytes = shared_->options.cache_bytes;
  if (bytes == 0) {
    // Enough for one whole context beside the running state, however little is free.
    const std::uint64_t least =
        2 * layout.state_bytes +
        static_cast<std::uint64_t>(engine::blocks_for(shared_->context_length) + 1) *
            layout.kv_block_bytes;
    bytes = std::max(std::min(kDefaultCacheCap, available_memory() / 4), least);
  }
  shared_->pools = std::make_shared<engine::MemoryPools>(layout, bytes);
}

void ActorEngine::open_disk(const model::BackendInfo& backend, const model::MemoryLayout& layout) {
  shared_->disk = actors::open_disk_tier(shared_->options, *shared_->bundle, backend, layout);
  if (shared_->disk) {
    if (auto learned = shared_->disk->load_blob(actors::kLearnedBlob); learned.ok()) {
      shared_->learned = std::move(*learned);
    }
  }
  shared_->copy_kv_slots = [weights = shared_->bundle->weights, kv = kv_type()](
                               const std::byte* from, std::byte* to, std::int32_t tokens) {
    model::copy_cpu_kv_slots(model::config_of(*weights), kv, from, to, tokens);
  };
}

model::KvType ActorEngine::kv_type() const {
  return shared_->options.kv == "f32" ? model::KvType::f32 : model::KvType::bf16;
}

void ActorEngine::fill_info(const model::BackendInfo& backend, const model::MemoryLayout& layout) {
  const EngineOptions& o = shared_->options;
  const model::ModelConfig& config = model::config_of(*shared_->bundle->weights);
  info_.model_name = shared_->bundle->name;
  info_.shape = shape_of(config);
  info_.device = backend.device;
  info_.isa = backend.isa;
  info_.weights = backend.weights;
  info_.kv = backend.kv;
  info_.policy = o.policy;
  info_.cache_scope = o.cache_scope;
  info_.threads = backend.threads;
  info_.context_length = shared_->context_length;
  info_.vocab_size = config.vocab_size;
  info_.cache_bytes = o.cache_bytes;
  info_.state_bytes = layout.state_bytes;
  info_.kv_bytes_per_token = layout.kv_bytes_per_token();
  const auto add = [&](const char* name, std::uint64_t value) {
    info_.limits.emplace_back(name, std::to_string(value));
  };
  add("context_length", static_cast<std::uint64_t>(shared_->context_length));
  info_.limits.emplace_back("cache_bytes", format_bytes(o.cache_bytes));
  add("cache_holds_tokens_without_states", o.cache_bytes / info_.kv_bytes_per_token);
  add("cache_holds_states_without_tokens", o.cache_bytes / layout.state_bytes);
  add("max_running", static_cast<std::uint64_t>(o.max_running));
  add("max_step_tokens", static_cast<std::uint64_t>(o.max_step_tokens));
  add("queue_limit", static_cast<std::uint64_t>(o.queue_limit));
  add("queue_token_limit", static_cast<std::uint64_t>(o.queue_token_limit));
  info_.limits.emplace_back("queue_byte_limit",
                            format_bytes(static_cast<std::uint64_t>(o.queue_byte_limit)));
  add("max_choices", static_cast<std::uint64_t>(o.max_choices));
  add("max_logprobs", static_cast<std::uint64_t>(o.max_logprobs));
  add("max_prompt_logprobs", static_cast<std::uint64_t>(o.max_prompt_logprobs));
  add("max_stop_strings", static_cast<std::uint64_t>(o.max_stop_strings));
  add("max_cache_salt_bytes", static_cast<std::uint64_t>(o.max_cache_salt_bytes));
  add("forest_nodes", static_cast<std::uint64_t>(o.forest_nodes));
  add("request_timeout_ms", static_cast<std::uint64_t>(o.request_timeout.count()));
  if (shared_->disk) {
    const std::uint64_t age = static_cast<std::uint64_t>(o.disk_max_age.count());
    info_.disk_bytes = o.disk_bytes;
    info_.limits.emplace_back("disk_dir", o.disk_dir);
    info_.limits.emplace_back("disk_bytes", format_bytes(o.disk_bytes));
    info_.limits.emplace_back("disk_max_age_ms", age == 0 ? "none" : std::to_string(age));
    add("disk_states_found", shared_->disk->stat().states);
  }
  Metrics& metrics = *shared_->metrics;
  metrics.set_build_info(kVersion, info_.device, info_.isa);
  metrics.set_model_info(info_.model_name, info_.shape);
  metrics.set_cache_config_info(1, o.cache_bytes, o.policy, info_.kv);
  // One budget, either kind may take all of it.
  metrics.cache_bytes_limit(CacheObject::kv).set(static_cast<double>(o.cache_bytes));
  metrics.cache_bytes_limit(CacheObject::state).set(static_cast<double>(o.cache_bytes));
  const double disk = shared_->disk ? static_cast<double>(o.disk_bytes) : 0.0;
  metrics.cache_bytes_limit(CacheObject::kv, Tier::disk).set(disk);
  metrics.cache_bytes_limit(CacheObject::state, Tier::disk).set(disk);
}

engine::RequestLimits ActorEngine::limits() const {
  engine::RequestLimits limits;
  limits.vocab_size = info_.vocab_size;
  limits.context_length = info_.context_length;
  limits.max_choices = shared_->options.max_choices;
  limits.max_logprobs = shared_->options.max_logprobs;
  limits.max_stop_strings = shared_->options.max_stop_strings;
  limits.max_prompt_logprobs = shared_->options.max_prompt_logprobs;
  limits.max_cache_salt_bytes = shared_->options.max_cache_salt_bytes;
  limits.client_key_needed = shared_->options.cache_scope == "key";
  return limits;
}

Result<RequestId> ActorEngine::submit(GenerateRequest request, EventSink sink) {
  if (shared_->closing) return Error{ErrorCode::unavailable, "the server is shutting down", ""};
  if (const Status valid = engine::validate(request, shared_->request_limits); !valid.ok())
    return valid.error();
  // What the batch has room for passes through the queue without waiting in it.
  const std::int64_t room =
      std::max<std::int64_t>(0, shared_->options.max_running - shared_->running.load());
  if (shared_->waiting.fetch_add(1) >= shared_->options.queue_limit + room) {
    --shared_->waiting;
    return Error{ErrorCode::queue_full,
                 "the queue is full (" + std::to_string(shared_->options.queue_limit) +
                     " requests wait); try again later",
                 ""};
  }
  // Text waits for its tokens untokenized: it is counted by its bytes until then. One prompt alone
  // may be of any size.
  const std::int64_t bytes = prompt_bytes(request.prompt);
  const std::int64_t waiting_bytes = shared_->waiting_bytes.load();
  if (waiting_bytes > 0 && waiting_bytes + bytes > shared_->options.queue_byte_limit) {
    --shared_->waiting;
    return Error{ErrorCode::queue_full,
                 "prompts of " + format_bytes(static_cast<std::uint64_t>(waiting_bytes)) +
                     " already wait; try again later",
                 ""};
  }
  auto ticket = std::make_shared<actors::Ticket>();
  ticket->id = next_id_++;
  ticket->first_sequence = shared_->next_sequence.fetch_add(static_cast<std::uint64_t>(request.n));
  ticket->submitted = Clock::now();
  ticket->deadline =
      ticket->submitted + std::clamp(request.timeout.value_or(shared_->options.request_timeout),
                                     kLeastTimeout, kMostTimeout);
  const int workers = shared_->options.text_workers;
  ticket->worker = static_cast<int>(ticket->id % static_cast<std::uint64_t>(workers));
  ticket->preparer = workers + ticket->worker;
  const bool by_key = shared_->options.cache_scope == "key";
  ticket->scope =
      engine::cache_scope_of(by_key ? request.client_key : std::string(), request.cache_salt);
  request.client_key.clear();  // nobody further in needs to know it
  request.cache_salt.clear();
  ticket->request = std::move(request);
  ticket->place = std::make_unique<actors::WaitingPlace>(shared_->waiting, shared_->waiting_tokens,
                                                         shared_->waiting_bytes, bytes);
  const RequestId id = ticket->id;
  if (!runtime_->submit(std::move(ticket), std::move(sink))) {
    return Error{ErrorCode::unavailable, "the request router is being replaced; try again", ""};
  }
  // A close that began meanwhile may have passed this request by.
  if (shared_->closing) {
    shared_->tickets.deliver(
        id, Failed{Error{ErrorCode::unavailable, "the server is shutting down", ""}, {}});
  }
  return id;
}

void ActorEngine::cancel(RequestId id) {
  if (!shared_->tickets.is_open(id)) return;
  runtime_->router(
      actors::CancelRequest{id, Error{ErrorCode::cancelled, "the request was cancelled", ""}});
}

Result<std::vector<std::int32_t>> ActorEngine::tokenize(const Prompt& prompt) const {
  auto encoded = engine::encode_prompt(*shared_->bundle, prompt);
  if (!encoded.ok()) return encoded.error();
  return std::move(encoded->tokens);
}

Result<std::string> ActorEngine::detokenize(std::span<const std::int32_t> tokens, bool skip) const {
  if (!shared_->bundle->tokenizer) {
    return Error{ErrorCode::unsupported, "this model was loaded without a tokenizer", "tokens"};
  }
  return shared_->bundle->tokenizer->decode(tokens, skip);
}

std::string ActorEngine::token_bytes(std::int32_t token) const {
  return shared_->bundle->tokenizer ? std::string(shared_->bundle->tokenizer->id_to_bytes(token))
                                    : std::string();
}

EngineStats ActorEngine::stats() const {
  const engine::PoolUsage usage = shared_->pools->usage();
  EngineStats s;
  s.running = shared_->running;
  s.waiting = shared_->waiting;
  s.kv_blocks = usage.blocks_live;
  s.states = usage.states_live;
  s.kv_bytes =
      static_cast<std::uint64_t>(usage.blocks_live) * shared_->pools->layout().kv_block_bytes;
  s.state_bytes = static_cast<std::uint64_t>(usage.states_live) * info_.state_bytes;
  s.cached_states = shared_->cached_states;
  if (shared_->disk) {
    const engine::DiskStat disk = shared_->disk->stat();
    s.disk_states = static_cast<std::int64_t>(disk.states);
    s.disk_bytes = disk.bytes;
  }
  s.plan_epoch = shared_->plan_epoch;
  s.cache_price = shared_->cache_price;
  return s;
}

Health ActorEngine::health() const {
  if (shared_->closing) return {false, "shutting down"};
  if (!shared_->executor_up)
    return {false, "the device worker failed and has not been restarted yet"};
  return {true, ""};
}

std::vector<std::string> ActorEngine::close(std::chrono::milliseconds deadline) {
  std::lock_guard lock(close_mutex_);
  if (closed_) return {};
  closed_ = true;
  shared_->closing = true;
  const auto end = Clock::now() + deadline;
  const auto wait_idle = [&](Clock::time_point until) {
    while (shared_->tickets.open_count() > 0 && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  wait_idle(end);
  for (const RequestId id : shared_->tickets.open_ids()) {
    runtime_->router(actors::CancelRequest{
        id, Error{ErrorCode::unavailable, "the server is shutting down", ""}});
  }
  wait_idle(Clock::now() + std::chrono::seconds(2));
  shared_->tickets.fail_all(Error{ErrorCode::unavailable, "the server is shutting down", ""});
  if (shared_->disk) {
    const auto kept = std::make_shared<std::promise<Result<bool>>>();
    auto done = kept->get_future();
    runtime_->prefix(actors::KeepLearned{kept});
    done.wait_until(std::max(end, Clock::now() + std::chrono::milliseconds(200)));
  }
  // What the memory holds and the disk does not is worth the rest of the time.
  while (shared_->disk_backlog.load() > 0 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return runtime_->stop(std::chrono::seconds(5));
}

}  // namespace

std::unique_ptr<Engine> make_engine(EngineOptions options, std::shared_ptr<Metrics> metrics) {
  return std::make_unique<ActorEngine>(std::move(options), std::move(metrics));
}

namespace actors {

void kill_actor(Engine& engine, Role role, int worker) {
  dynamic_cast<ActorEngine&>(engine).runtime().kill(role, worker);
}

}  // namespace actors
}  // namespace cairn
