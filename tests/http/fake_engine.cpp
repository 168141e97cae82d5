// SPDX-License-Identifier: Apache-2.0
#include "tests/http/fake_engine.hpp"

namespace cairn::testing {

void FakeRun::emit(Event event) {
  if (ended_) return;
  ended_ = std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
  sink_(std::move(event));
}

void FakeRun::text(const std::string& words, std::int32_t choice) {
  Delta delta;
  delta.choice = choice;
  delta.text = words;
  delta.tokens = {1};
  if (request.logprobs >= 0) {
    delta.logprobs = {{{1, -0.5F, words}, {}}};
    for (int i = 0; i < request.logprobs; ++i) delta.logprobs[0].top.push_back({1, -0.5F, words});
  }
  emit(delta);
}

void FakeRun::finish(FinishReason reason, std::int32_t cached) {
  for (std::int32_t i = 0; i < request.n; ++i) emit(ChoiceFinished{i, reason});
  Usage usage;
  usage.prompt_tokens = 3;
  usage.completion_tokens = 2 * request.n;
  usage.cached_tokens = cached;
  usage.seed = 7;
  emit(Finished{usage});
}

bool FakeRun::cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

bool FakeRun::wait_cancelled(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return cancelled_; });
}

FakeEngine::FakeEngine() {
  info_.model_name = "fake";
  info_.shape = "none";
  info_.device = "cpu";
  info_.policy = "dp:4";
  info_.cache_scope = "global";
  info_.context_length = 4096;
  info_.vocab_size = 256;
  info_.cache_bytes = 1 << 20;
  info_.disk_bytes = 1 << 30;
  info_.limits = {{"context", "4096 tokens"}};
  set_script([](FakeRun& run) {
    run.started();
    for (std::int32_t i = 0; i < run.request.n; ++i) {
      run.text("Hello", i);
      run.text(" world", i);
    }
    run.finish();
  });
}

FakeEngine::~FakeEngine() {
  std::vector<RequestId> ids;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_) ids.push_back(id);
    threads.swap(threads_);
  }
  for (const RequestId id : ids) cancel(id);
  for (auto& thread : threads) thread.join();
}

void FakeEngine::set_script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeEngine::refuse_next(Error error) {
  const std::lock_guard lock(mutex_);
  refusals_.push_back(std::move(error));
}

void FakeEngine::set_health(Health health) {
  const std::lock_guard lock(mutex_);
  health_ = std::move(health);
}

void FakeEngine::set_plan(Result<std::string> plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
}

void FakeEngine::set_dropped(Result<DroppedCache> dropped) {
  const std::lock_guard lock(mutex_);
  dropped_ = std::move(dropped);
}

void FakeEngine::hold_admin(bool held) {
  const std::lock_guard lock(mutex_);
  admin_held_ = held;
  changed_.notify_all();
}

void FakeEngine::wait_held(std::unique_lock<std::mutex>& lock) {
  ++admin_waits_;
  changed_.wait(lock, [this] { return !admin_held_; });
  --admin_waits_;
}

Result<DroppedCache> FakeEngine::drop_cache(std::chrono::milliseconds) {
  std::unique_lock lock(mutex_);
  wait_held(lock);
  ++drops_;
  return dropped_;
}

Result<std::string> FakeEngine::plan_json(std::chrono::milliseconds) {
  std::unique_lock lock(mutex_);
  wait_held(lock);
  return plan_;
}

std::vector<GenerateRequest> FakeEngine::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::size_t FakeEngine::cancels() const {
  const std::lock_guard lock(mutex_);
  return cancelled_.size();
}

bool FakeEngine::wait_cancels(std::size_t count, std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return cancelled_.size() >= count; });
}

bool FakeEngine::wait_idle(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return running_ == 0; });
}

Result<RequestId> FakeEngine::submit(GenerateRequest request, EventSink sink) {
  const std::lock_guard lock(mutex_);
  if (!refusals_.empty()) {
    Error error = refusals_.front();
    refusals_.pop_front();
    return error;
  }
  auto run = std::make_shared<FakeRun>();
  run->id = next_++;
  run->request = request;
  run->sink_ = std::move(sink);
  requests_.push_back(std::move(request));
  runs_[run->id] = run;
  ++running_;
  threads_.emplace_back([this, run, script = script_] {
    script(*run);
    if (!run->ended_) run->fail(ErrorCode::cancelled, "The request was cancelled.");
    run->sink_ = nullptr;
    const std::lock_guard guard(mutex_);
    runs_.erase(run->id);
    --running_;
    changed_.notify_all();
  });
  return run->id;
}

void FakeEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  cancelled_.insert(id);
  changed_.notify_all();
  const std::lock_guard guard(found->second->mutex_);
  found->second->cancelled_ = true;
  found->second->changed_.notify_all();
}

Result<std::vector<std::int32_t>> FakeEngine::tokenize(const Prompt& prompt) const {
  const auto* text = std::get_if<TextPrompt>(&prompt);
  if (!text) return Error{ErrorCode::unsupported, "Only text.", "messages"};
  if (text->text == "throw") throw std::runtime_error("on purpose");
  return std::vector<std::int32_t>(text->text.begin(), text->text.end());
}

Result<std::string> FakeEngine::detokenize(std::span<const std::int32_t> tokens, bool) const {
  return std::string(tokens.begin(), tokens.end());
}

std::string FakeEngine::token_bytes(std::int32_t token) const {
  return std::string(1, static_cast<char>(token));
}

EngineStats FakeEngine::stats() const {
  EngineStats stats;
  stats.running = running_;
  stats.cache_price = 0.5;
  stats.disk_bytes = 3'000;
  return stats;
}

Health FakeEngine::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

}  // namespace cairn::testing
