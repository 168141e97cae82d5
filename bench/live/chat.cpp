// SPDX-License-Identifier: Apache-2.0
#include "bench/live/chat.hpp"

#include <array>
#include <memory>
#include <random>
#include <utility>

#include "bench/live/client.hpp"

namespace cairn::bench {
namespace {

// One engine's side of one chat.
class Talk {
 public:
  Talk(const ChatOptions& options, const char* policy, ChatResult::Side& side)
      : answer_(options.answer), side_(side), metrics_(std::make_shared<Metrics>()) {
    EngineOptions engine;
    engine.model = options.model;
    engine.threads = options.threads;
    engine.policy = policy;
    engine.cache_bytes = options.cache_bytes;
    engine_ = make_engine(std::move(engine), metrics_);
  }

  Reply say(const Tokens& message, bool timed) {
    history_ = joined(history_, message);
    Reply reply = ask(*engine_, greedy(history_, answer_));
    history_ = joined(history_, reply.tokens);
    side_.prompts += reply.usage.prompt_tokens;
    side_.computed += reply.computed();
    if (timed) side_.seconds.push_back(reply.usage.first_token_seconds);
    // The planner is to be done with this turn before the other engine is timed.
    stored_ = states_stored(*engine_, *metrics_).all();
    return reply;
  }
  void end() { side_.stored += stored_; }
  const Engine& engine() const { return *engine_; }

 private:
  std::int32_t answer_;
  ChatResult::Side& side_;
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Engine> engine_;
  Tokens history_;
  double stored_ = 0;
};

void chat(const ChatOptions& options, bool last_first, std::mt19937_64& random, ChatResult& out) {
  // Which memory an engine gets depends on what was there before it.
  std::unique_ptr<Talk> last, forest;
  if (last_first) last = std::make_unique<Talk>(options, "last", out.last);
  forest = std::make_unique<Talk>(options, "forest", out.forest);
  if (!last_first) last = std::make_unique<Talk>(options, "last", out.last);
  const std::array<Talk*, 2> sides = {last.get(), forest.get()};
  for (int turn = 0; turn <= options.turns; ++turn) {
    const std::int32_t length = turn == 0 ? options.opening : options.message;
    const Tokens message = random_tokens(last->engine(), random, static_cast<std::size_t>(length));
    const std::size_t first = random() % 2;
    std::array<Reply, 2> replies;
    for (const std::size_t i : {first, 1 - first}) replies[i] = sides[i]->say(message, turn > 0);
    if (!same_answer(replies[0], replies[1])) ++out.different;
  }
  last->end();
  forest->end();
}

}  // namespace

ChatResult measure_chat(const ChatOptions& options) {
  std::mt19937_64 random(31);
  ChatResult out;
  for (int i = 0; i < options.chats; ++i) chat(options, i % 2 == 0, random, out);
  return out;
}

Findings findings_of(const ChatResult& r) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < r.last.seconds.size(); ++i) {
    ratios.push_back(r.forest.seconds[i] / r.last.seconds[i]);
  }
  return {{"turns put to both", static_cast<double>(ratios.size()), "", {}},
          {"time to first token under last, median", 1e3 * median(r.last.seconds), "ms", {}},
          {"time to first token under forest, median", 1e3 * median(r.forest.seconds), "ms", {}},
          {"forest / last, median of turns", median(ratios), "", 1.01},
          {"forest / last, lower quartile", quantile(ratios, 0.25), "", {}},
          {"forest / last, upper quartile", quantile(ratios, 0.75), "", {}},
          {"tokens of the prompts", static_cast<double>(r.last.prompts), "", {}},
          {"tokens computed under last", static_cast<double>(r.last.computed), "", {}},
          {"tokens computed under forest", static_cast<double>(r.forest.computed), "", {}},
          {"states written under last", r.last.stored, "", {}},
          {"states written under forest", r.forest.stored, "", {}},
          {"answers that differ", static_cast<double>(r.different), "", 0.0}};
}

}  // namespace cairn::bench
