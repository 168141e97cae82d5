// SPDX-License-Identifier: Apache-2.0
#include "bench/live/document.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "bench/live/client.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/simulate/simulator.hpp"

namespace cairn::bench {
namespace {

std::unique_ptr<Engine> start(const DocumentOptions& options, const char* policy) {
  EngineOptions engine;
  engine.model = options.model;
  engine.activations = options.activations;
  engine.threads = options.threads;
  engine.policy = policy;
  engine.cache_bytes = options.cache_bytes;
  return make_engine(std::move(engine));
}

// Prompts and, for the simulator, what they share with the first: the most that they share with any
// before.
struct Prompts {
  std::vector<Tokens> tokens;
  std::vector<engine::TraceRequest> rows;
};

class Measurement {
 public:
  explicit Measurement(const DocumentOptions& options)
      : options_(options),
        warm_(start(options, "forest")),
        cold_(start(options, "none")),
        document_(random_tokens(*warm_, random_, static_cast<std::size_t>(options.document))) {}

  DocumentResult run() {
    const Prompts prompts = make_prompts();
    for (const Tokens& prompt : prompts.tokens) {
      const Reply reply = ask(*warm_, question(prompt));
      result_.prompt_tokens += reply.usage.prompt_tokens;
      result_.computed += reply.computed();
      compare(prompt, reply);
    }
    predict(prompts);
    ask_at_once();
    return result_;
  }

 private:
  GenerateRequest question(const Tokens& prompt) const {
    GenerateRequest request = greedy(prompt, options_.answer);
    request.logprobs = 0;
    return request;
  }

  Tokens leaving(std::int32_t depth) {
    const std::span<const std::int32_t> shared(document_);
    return joined(shared.first(static_cast<std::size_t>(depth)),
                  random_tokens(*warm_, random_, static_cast<std::size_t>(options_.question)));
  }

  Prompts make_prompts() {
    Prompts out;
    constexpr std::int32_t kShallowest = 100;
    const std::int32_t first = std::min(kShallowest, options_.document / 2);
    const auto range = static_cast<std::uint64_t>(options_.document - first);
    for (int i = 0; i < 2 * options_.prompts; ++i) {
      const bool whole = i < options_.prompts;
      const std::int32_t depth =
          whole ? options_.document : first + static_cast<std::int32_t>(random_() % range);
      out.tokens.push_back(leaving(depth));
      engine::TraceRequest& row = out.rows.emplace_back();
      row.length = depth + options_.question;
      row.overlap = i == 0 ? 0 : depth;
      row.parent = i == 0 ? -1 : 0;
    }
    return out;
  }

  void compare(const Tokens& prompt, const Reply& reply) {
    if (asked_++ % options_.compare_every != 0) return;
    ++result_.compared;
    if (!same_answer(reply, ask(*cold_, question(prompt)))) ++result_.different;
  }

  void predict(const Prompts& prompts) {
    engine::SimulatorOptions simulator;
    simulator.bytes = options_.cache_bytes;
    simulator.server = layout_of(*warm_);
    simulator.policy_costs = {};
    simulator.each = [&](const engine::SimulatedRequest& r) {
      result_.predicted += r.length - r.resume;
    };
    engine::simulate(*engine::chain_trace(prompts.rows), engine::make_cache_policy("forest").take(),
                     simulator);
  }

  void ask_at_once() {
    std::vector<Tokens> prompts;
    std::vector<std::future<Reply>> replies;
    for (int i = 0; i < options_.at_once; ++i) prompts.push_back(leaving(options_.document));
    for (const Tokens& prompt : prompts) replies.push_back(send(*warm_, question(prompt)));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Reply reply = replies[i].get();
      result_.most_at_once = std::max(result_.most_at_once, reply.computed());
      compare(prompts[i], reply);
    }
  }

  const DocumentOptions& options_;
  std::mt19937_64 random_{23};
  std::unique_ptr<Engine> warm_, cold_;
  Tokens document_;
  int asked_ = 0;
  DocumentResult result_;
};

}  // namespace

DocumentResult measure_document(const DocumentOptions& options) {
  return Measurement(options).run();
}

Findings findings_of(const DocumentResult& r) {
  const double predicted = static_cast<double>(std::max<std::int64_t>(r.predicted, 1));
  return {
      {"tokens of the prompts", static_cast<double>(r.prompt_tokens), "", {}},
      {"tokens computed", static_cast<double>(r.computed), "", {}},
      {"tokens computed / simulator's", static_cast<double>(r.computed) / predicted, "", 1.05},
      {"most tokens computed of one asked at once", static_cast<double>(r.most_at_once), "", 70.0},
      {"answers compared with a cold engine's", static_cast<double>(r.compared), "", {}},
      {"answers that differ", static_cast<double>(r.different), "", 0.0}};
}

}  // namespace cairn::bench
