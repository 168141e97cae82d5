// SPDX-License-Identifier: Apache-2.0
// Requests of token ids to a running engine, for what is measured on one.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <random>
#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "metrics/metrics.hpp"
#include "model/net/backend.hpp"

namespace cairn::bench {

using Tokens = std::vector<std::int32_t>;

/// What a request delivered, and when.
struct Reply {
  Tokens tokens;
  std::vector<float> logprobs;                               // of the tokens, when asked for
  std::vector<std::chrono::steady_clock::time_point> times;  // of the tokens
  Usage usage;

  std::int32_t computed() const { return usage.prompt_tokens - usage.cached_tokens; }
};

/// Bit for bit: tokens and log-probabilities.
bool same_answer(const Reply& a, const Reply& b);

/// Greedy, of exactly `answer` tokens.
GenerateRequest greedy(Tokens prompt, std::int32_t answer);

/// The future throws LoadError when the request failed or was refused.
std::future<Reply> send(Engine& engine, GenerateRequest request);
inline Reply ask(Engine& engine, GenerateRequest request) {
  return send(engine, std::move(request)).get();
}

/// Ids of the engine's vocabulary, all equally likely.
Tokens random_tokens(const Engine& engine, std::mt19937_64& random, std::size_t count);
/// `first`, then `then`.
Tokens joined(std::span<const std::int32_t> first, std::span<const std::int32_t> then);

/// Sizes of what the engine's pools hold.
model::MemoryLayout layout_of(const Engine& engine);

/// States stored so far, once the engine has nothing more to store. Those at the ends of answers
/// are handed over; the others were copied.
struct StatesStored {
  double copied = 0, handed_over = 0;
  double all() const { return copied + handed_over; }
};
StatesStored states_stored(const Engine& engine, const Metrics& metrics);

}  // namespace cairn::bench
