// SPDX-License-Identifier: Apache-2.0
#include "tests/support/client.hpp"

#include <stdexcept>
#include <utility>

namespace cairn::tests {

struct Call::State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  Answer answer;
  std::size_t tokens = 0;
  bool done = false;
};

namespace {

template <class T>
T& at_choice(std::vector<T>& list, std::int32_t choice) {
  if (list.size() <= static_cast<std::size_t>(choice))
    list.resize(static_cast<std::size_t>(choice) + 1);
  return list[static_cast<std::size_t>(choice)];
}

}  // namespace

void Call::take(State& state, Event event) {
  std::lock_guard lock(state.mutex);
  Answer& a = state.answer;
  if (auto* started = std::get_if<Started>(&event)) {
    a.started = std::move(*started);
  } else if (auto* delta = std::get_if<Delta>(&event)) {
    const auto now = std::chrono::steady_clock::now();
    if (state.tokens == 0) a.first_token = now;
    at_choice(a.text, delta->choice) += delta->text;
    auto& tokens = at_choice(a.tokens, delta->choice);
    tokens.insert(tokens.end(), delta->tokens.begin(), delta->tokens.end());
    auto& infos = at_choice(a.logprobs, delta->choice);
    infos.insert(infos.end(), delta->logprobs.begin(), delta->logprobs.end());
    state.tokens += delta->tokens.size();
    a.token_times.insert(a.token_times.end(), delta->tokens.size(), now);
  } else if (auto* finished = std::get_if<ChoiceFinished>(&event)) {
    at_choice(a.reasons, finished->choice) = finished->reason;
  } else if (auto* end = std::get_if<Finished>(&event)) {
    a.usage = end->usage;
    ++a.last_events;
    state.done = true;
  } else if (auto* failed = std::get_if<Failed>(&event)) {
    a.usage = failed->usage;
    a.error = failed->error;
    ++a.last_events;
    state.done = true;
  }
  state.changed.notify_all();
}

Call::Call(Engine& engine, GenerateRequest request)
    : engine_(engine), state_(std::make_shared<State>()) {
  auto id = engine.submit(std::move(request),
                          [state = state_](Event event) { take(*state, std::move(event)); });
  if (id.ok()) {
    id_ = *id;
    return;
  }
  state_->answer.error = id.error();
  state_->done = true;
}

Call::~Call() {
  if (!done()) cancel();
}

Answer Call::wait() {
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, std::chrono::seconds(60), [&] { return state_->done; })) {
    throw std::runtime_error("a request did not end within a minute");
  }
  return state_->answer;
}

bool Call::done() const {
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Call::wait_tokens(std::size_t n) {
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, std::chrono::seconds(60),
                                [&] { return state_->done || state_->tokens >= n; })) {
    throw std::runtime_error("tokens did not arrive within a minute");
  }
}

void Call::cancel() { engine_.cancel(id_); }

GenerateRequest ids_request(std::vector<std::int32_t> ids, std::int32_t max_tokens) {
  GenerateRequest request;
  request.prompt = std::move(ids);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.F;
  return request;
}

}  // namespace cairn::tests
