// SPDX-License-Identifier: Apache-2.0
// The CUDA backend under the harness, with pools on its arena, a prefix cache and a batch loop: an
// engine without actors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.hpp"
#include "engine/batch/batch_loop.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net_cuda/small_model.hpp"
#include "tests/support/fake_prefill.hpp"

namespace cairn::testing {

using Tokens = std::vector<std::int32_t>;

struct Ask {
  Tokens prompt;
  std::int32_t max_new = 6;
  std::int32_t logprobs = -1;
  std::uint64_t seed = 1;
};

/// What a request came to; equal bits are equal answers.
struct Told {
  Tokens tokens;
  std::vector<float> logprobs;
  std::vector<std::byte> end_state;  // covers all but the last token
  std::int32_t cached = 0;
  bool same_bits(const Told& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && end_state == other.end_state;
  }
};

class CudaServer {
 public:
  /// An arena of `states` states' size.
  explicit CudaServer(std::size_t states,
                      engine::BatchOptions options = {.max_step_tokens = 48, .max_running = 4})
      : backend(make_backend(options)),
        arena(backend->make_arena(states * backend->layout().state_bytes)),
        pools(backend->layout(), arena->size(), arena),
        cache(pools, tests::branch_policy()),
        loop(*backend, options) {}

  /// All of them at once, as many as fit running; in the order of `asks`.
  std::vector<Told> serve(const std::vector<Ask>& asks, bool use_cache = true) {
    std::vector<Told> told(asks.size());
    std::size_t next = 0, open = asks.size();
    while (open > 0) {
      while (next < asks.size() && loop.running() < 4 && admit(asks[next], next, told, use_cache)) {
        ++next;
      }
      open -= step(told);
    }
    return told;
  }
  Told serve_one(const Ask& ask, bool use_cache = true) { return serve({ask}, use_cache)[0]; }

  std::vector<std::byte> bytes_of(const engine::StateRef& state) const {
    std::vector<std::byte> bytes(backend->layout().state_bytes);
    arena->read(state.data(), bytes);
    return bytes;
  }

  std::unique_ptr<model::Backend> backend;
  std::shared_ptr<model::Arena> arena;
  engine::MemoryPools pools;
  engine::PrefixCache cache;
  engine::BatchLoop loop;
  std::vector<engine::SavedState> saved;  // everything that was published, while kept
  bool keep_saved = false;

 private:
  static std::unique_ptr<model::Backend> make_backend(const engine::BatchOptions& options) {
    model::CudaOptions cuda;
    cuda.max_step_tokens = options.max_step_tokens;
    cuda.max_slices = options.max_running;
    return model::make_cuda_backend(model::random_weights(small_shape(), 5), cuda);
  }

  bool admit(const Ask& ask, std::size_t number, std::vector<Told>& told, bool use_cache) {
    engine::LookupRequest request;
    request.id = ++last_id_;
    request.tokens = tests::seq(ask.prompt);
    request.max_new = ask.max_new;
    request.use_cache = use_cache;
    request.may_wait = false;
    auto found = cache.lookup(request);
    auto* lease = std::get_if<engine::Lease>(&found);
    if (lease == nullptr) {
      check(std::get<engine::NoRoom>(found).ever, "a request that never fits");
      return false;
    }
    numbers_[request.id] = number;
    told[number].cached = lease->resume;
    lease->publish = true;  // its end is to be seen; what is cold is not entered below
    cold_[request.id] = !use_cache;
    engine::SequenceSpec spec;
    spec.id = request.id;
    spec.tokens = request.tokens;
    spec.max_new = ask.max_new;
    spec.sampling.seed = ask.seed;
    spec.sampling.top_p = 0.9F;
    spec.logprobs = ask.logprobs;
    spec.lease = std::move(*lease);
    loop.admit(std::move(spec));
    return true;
  }

  std::size_t step(std::vector<Told>& told) {
    engine::StepReport report = loop.step();
    for (const auto& token : report.tokens) {
      Told& t = told[numbers_.at(token.id)];
      t.tokens.push_back(token.token);
      for (const auto& top : token.logprobs.top) t.logprobs.push_back(top.logprob);
    }
    for (engine::SavedState& s : report.saved) {
      if (s.kind == engine::StateKind::answer_end) {
        told[numbers_.at(s.id)].end_state = bytes_of(s.state);
      }
      if (cold_.at(s.id)) continue;
      if (keep_saved) saved.push_back(s);
      cache.publish(std::move(s));
    }
    if (report.blocks_wanted > 0) {
      if (auto more = cache.extend(report.blocks_wanted)) loop.add_blocks(std::move(*more));
    }
    for (const auto& ended : report.ended) {
      check(ended.reason == engine::EndReason::length, "a request did not end well");
      cache.end(ended.id);
    }
    return report.ended.size();
  }

  engine::SequenceId last_id_ = 0;
  std::map<engine::SequenceId, std::size_t> numbers_;
  std::map<engine::SequenceId, bool> cold_;
};

}  // namespace cairn::testing
