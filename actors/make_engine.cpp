// SPDX-License-Identifier: Apache-2.0
// The public API on top of the actors.
#include <algorithm>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "actors/admin.hpp"
#include "actors/disk_tier.hpp"
#include "actors/engine_setup.hpp"
#include "actors/open_device.hpp"
#include "actors/runtime.hpp"
#include "actors/testing.hpp"
#include "base/bytes.hpp"
#include "engine/engine.hpp"
#include "engine/request/cache_scope.hpp"
#include "engine/request/validate.hpp"
#include "metrics/metrics.hpp"

namespace cairn {
namespace {

using actors::Clock;

constexpr std::chrono::milliseconds kLeastTimeout{1};
constexpr std::chrono::milliseconds kMostTimeout{std::chrono::hours(24 * 365)};

std::int64_t prompt_bytes(const Prompt& prompt) {
  std::size_t bytes = 0;
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) bytes = 4 * ids->size();
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) bytes = text->text.size();
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    bytes = chat->messages_json.size() + chat->tools_json.size();
  }
  return static_cast<std::int64_t>(bytes);
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
  void open_disk(const model::BackendInfo& backend, const model::MemoryLayout& layout);
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
  actors::check_options(options);
  shared_->options = std::move(options);
  shared_->metrics = metrics ? std::move(metrics) : std::make_shared<Metrics>();
  shared_->bundle =
      engine::load_model_bundle(shared_->options, actors::format_to_load(shared_->options));
  shared_->context_length =
      actors::resolve_context(shared_->options, model::config_of(*shared_->bundle->weights));
  // The first backend is made here, so that a device that cannot be used is told to the caller at
  // once.
  const auto opener = std::make_shared<actors::DeviceOpener>(
      shared_->options, shared_->bundle->weights, shared_->context_length);
  actors::OpenDevice open = opener->open();
  const model::BackendInfo backend = open.backend->info();
  const model::MemoryLayout layout = open.backend->layout();
  shared_->arena = open.arena;
  shared_->pools = open.pools;
  shared_->options.cache_bytes = shared_->pools->usage().bytes_budget;
  shared_->options.max_running = open.room.running;
  shared_->options.max_step_tokens = open.room.step_tokens;
  shared_->copy_kv_slots = open.backend->host_slot_copy();
  shared_->seconds_per_state_copy =
      actors::seconds_to_copy_state(*open.backend, *shared_->pools, open.arena.get());
  const auto first = std::make_shared<std::unique_ptr<model::Backend>>(std::move(open.backend));
  shared_->make_backend = [opener, first, arena = open.arena] {
    return *first ? std::move(*first) : opener->open_again(arena);
  };
  open_disk(backend, layout);
  info_ = actors::describe(*shared_, backend, layout);
  actors::count_limits(info_, *shared_);
  shared_->request_limits = limits();
  runtime_ = std::make_unique<actors::Runtime>(shared_);
}

void ActorEngine::open_disk(const model::BackendInfo& backend, const model::MemoryLayout& layout) {
  shared_->disk =
      actors::open_disk_tier(shared_->options, *shared_->bundle, backend, layout, shared_->arena);
  if (shared_->disk) {
    if (auto learned = shared_->disk->load_blob(actors::kLearnedBlob); learned.ok()) {
      shared_->learned = std::move(*learned);
    }
  }
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
  if (shared_->device_loss) return shared_->device_loss.error();
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
  if (shared_->device_loss) return {false, shared_->device_loss.error().message};
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
