// SPDX-License-Identifier: Apache-2.0
#include "bench/live/client.hpp"

#include <memory>
#include <thread>
#include <utility>

#include "base/check.hpp"

namespace cairn::bench {
namespace {

struct Receiver {
  std::promise<Reply> promise;
  Reply reply;

  void take(Event event) {
    if (auto* delta = std::get_if<Delta>(&event)) {
      reply.tokens.insert(reply.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      reply.times.insert(reply.times.end(), delta->tokens.size(), std::chrono::steady_clock::now());
      for (const TokenInfo& info : delta->logprobs) reply.logprobs.push_back(info.chosen.logprob);
    } else if (auto* finished = std::get_if<Finished>(&event)) {
      reply.usage = finished->usage;
      promise.set_value(std::move(reply));
    } else if (auto* failed = std::get_if<Failed>(&event)) {
      promise.set_exception(std::make_exception_ptr(LoadError(failed->error.message)));
    }
  }
};

StatesStored stored_now(const Metrics& metrics) {
  StatesStored out;
  for (int k = 0; k <= static_cast<int>(CheckpointKind::pinned); ++k) {
    const auto kind = static_cast<CheckpointKind>(k);
    (kind == CheckpointKind::answer_end ? out.handed_over : out.copied) +=
        metrics.state_checkpoint_stored_total(kind).value();
  }
  return out;
}

}  // namespace

bool same_answer(const Reply& a, const Reply& b) {
  return a.tokens == b.tokens && a.logprobs == b.logprobs;
}

GenerateRequest greedy(Tokens prompt, std::int32_t answer) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = answer;
  request.ignore_eos = true;
  request.sampling.temperature = 0.F;
  return request;
}

std::future<Reply> send(Engine& engine, GenerateRequest request) {
  auto receiver = std::make_shared<Receiver>();
  std::future<Reply> reply = receiver->promise.get_future();
  const auto id = engine.submit(std::move(request),
                                [receiver](Event event) { receiver->take(std::move(event)); });
  if (!id.ok()) throw LoadError(id.error().message);
  return reply;
}

Tokens random_tokens(const Engine& engine, std::mt19937_64& random, std::size_t count) {
  const auto ids = static_cast<std::uint64_t>(engine.info().vocab_size);
  Tokens out(count);
  for (auto& token : out) token = static_cast<std::int32_t>(random() % ids);
  return out;
}

Tokens joined(std::span<const std::int32_t> first, std::span<const std::int32_t> then) {
  Tokens out(first.begin(), first.end());
  out.insert(out.end(), then.begin(), then.end());
  return out;
}

model::MemoryLayout layout_of(const Engine& engine) {
  return {.kv_block_bytes = engine.info().kv_bytes_per_token * model::kBlockTokens,
          .state_bytes = engine.info().state_bytes};
}

StatesStored states_stored(const Engine& engine, const Metrics& metrics) {
  // States arrive in the cache after the answer: nothing new for a while means that all have.
  constexpr auto kWhile = std::chrono::milliseconds(20);
  StatesStored before = stored_now(metrics);
  for (;;) {
    std::this_thread::sleep_for(kWhile);
    const EngineStats stats = engine.stats();
    const StatesStored now = stored_now(metrics);
    if (stats.running == 0 && stats.waiting == 0 && now.all() == before.all()) return now;
    before = now;
  }
}

}  // namespace cairn::bench
