// SPDX-License-Identifier: Apache-2.0
// What a user of the public API relies on besides exactness: caching, sharing, numbers.
#include <algorithm>
#include <thread>

#include "base/check.hpp"
#include "metrics/metrics.hpp"
#include "tests/actors/tiny.hpp"

using namespace cairn;
using namespace cairn::tests;
using namespace std::chrono_literals;

TEST_CASE("an exact repeat has all but the last token cached and the same answer") {
  const auto engine = make_engine(tiny());
  const auto request = endless(ids(150, 1), 10);
  const Answer cold = ask(*engine, request);
  const Answer warm = ask(*engine, request);
  REQUIRE_FALSE(warm.error);
  CHECK(cold.cached() == 0);
  CHECK(warm.cached() == 149);
  CHECK(warm.tokens == cold.tokens);
  CHECK(warm.reasons[0] == FinishReason::length);
  CHECK(warm.usage->completion_tokens == 10);
}

TEST_CASE(
    "prompts that leave a shared document at 60 % find most of it cached the first time and all "
    "but 32 tokens later") {
  EngineOptions options = tiny();
  options.policy = "forest";
  const auto engine = make_engine(options);
  const auto document = ids(400, 2);
  const auto with_tail = [&](std::size_t keep, std::int32_t seed) {
    auto prompt = document;
    prompt.resize(keep);
    const auto tail = ids(24, seed);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    return endless(prompt, 4);
  };
  ask(*engine, with_tail(400, 11));
  CHECK(ask(*engine, with_tail(400, 12)).cached() >= 300);
  const std::size_t fork = 240;
  CHECK(ask(*engine, with_tail(fork, 13)).cached() >= static_cast<int>(fork * 3 / 4));
  for (std::int32_t seed = 14; seed < 17; ++seed) {
    CHECK(ask(*engine, with_tail(fork, seed)).cached() >= static_cast<int>(fork) - 32);
  }
  const Answer repeat = ask(*engine, with_tail(fork, 16));
  CHECK(repeat.cached() == static_cast<int>(fork) + 23);
}

TEST_CASE("A15: the second turn of a chat computes only what is new") {
  const auto engine = make_engine(tiny());
  const auto first = ids(100, 3);
  const Answer answer = ask(*engine, endless(first, 12));
  auto second = first;
  second.insert(second.end(), answer.tokens[0].begin(), answer.tokens[0].end());
  const auto more = ids(9, 4);
  second.insert(second.end(), more.begin(), more.end());
  CHECK(ask(*engine, endless(second, 4)).cached() >= 111);
}

TEST_CASE("A16: a prompt of twenty tokens is cached like any other") {
  const auto engine = make_engine(tiny());
  ask(*engine, endless(ids(20, 5), 2));
  CHECK(ask(*engine, endless(ids(20, 5), 2)).cached() == 19);
}

TEST_CASE("an answer is the same alone and in a crowd, sampled or greedy") {
  const auto engine = make_engine(tiny());
  auto request = endless(ids(70, 6), 16);
  request.sampling.temperature = 1.F;
  request.sampling.seed = 5;
  request.use_cache = false;
  const Answer alone = ask(*engine, request);
  std::vector<std::unique_ptr<Call>> crowd;
  for (int i = 0; i < 7; ++i) {
    crowd.push_back(std::make_unique<Call>(*engine, endless(ids(40 + 13 * i, 20 + i), 20)));
  }
  CHECK(ask(*engine, request).tokens == alone.tokens);
  for (auto& call : crowd) CHECK_FALSE(call->wait().error);
}

TEST_CASE("B11: n choices come with their own indices, the first equal to a single one") {
  const auto engine = make_engine(tiny());
  auto request = endless(ids(90, 7), 8);
  request.sampling.temperature = 1.F;
  request.sampling.seed = 9;
  const Answer one = ask(*engine, request);
  request.n = 4;
  const Answer four = ask(*engine, request);
  REQUIRE(four.tokens.size() == 4);
  CHECK(four.tokens[0] == one.tokens[0]);
  CHECK(four.tokens[1] != four.tokens[0]);
  CHECK(four.usage->completion_tokens == 32);
  for (const auto& reason : four.reasons) CHECK(reason == FinishReason::length);
}

TEST_CASE("requests that share an uncached prefix compute it once") {
  auto metrics = std::make_shared<Metrics>();
  auto o = tiny();
  o.max_step_tokens = 32;
  o.share_wait_tokens = 64;
  const auto engine = make_engine(o, metrics);
  const Failpoints slow("executor.step=sleep:2");
  const auto document = ids(400, 8);
  std::vector<std::unique_ptr<Call>> calls;
  for (std::int32_t i = 0; i < 4; ++i) {
    auto prompt = document;
    const auto tail = ids(16, 30 + i);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    calls.push_back(std::make_unique<Call>(*engine, endless(prompt, 2)));
  }
  int followers = 0;
  for (auto& call : calls) {
    const Answer a = call->wait();
    REQUIRE_FALSE(a.error);
    if (a.cached() >= 380) ++followers;
  }
  CHECK(followers == 3);
  CHECK(metrics->shared_prefill_waits_total().value() >= 3);
}

TEST_CASE("a cancelled leader hands over to those who waited for it") {
  auto o = tiny();
  o.max_step_tokens = 16;
  o.share_wait_tokens = 64;
  const auto engine = make_engine(o);
  const Failpoints slow("executor.step=sleep:5");
  auto prompt = ids(400, 9);
  Call leader(*engine, endless(prompt, 2));
  prompt.resize(380);
  Call follower(*engine, endless(prompt, 2));
  std::this_thread::sleep_for(30ms);
  leader.cancel();
  CHECK(leader.wait().error->code == ErrorCode::cancelled);
  CHECK_FALSE(follower.wait().error);
  require_empty_pools(*engine);
}

TEST_CASE("prompt log-probs ignore the cache and report nothing cached") {
  const auto engine = make_engine(tiny());
  auto request = endless(ids(60, 1), 2);
  ask(*engine, request);
  request.prompt_logprobs = true;
  request.logprobs = 2;
  const Answer a = ask(*engine, request);
  REQUIRE_FALSE(a.error);
  CHECK(a.cached() == 0);
  REQUIRE(a.started->prompt.size() == 60);
  CHECK(a.started->prompt[5].top.size() == 2);
  CHECK(a.started->prompt[5].chosen.token == ids(60, 1)[5]);
}

TEST_CASE("log-probs of a long prompt are whole although other choices answer before they are") {
  const auto engine = make_engine(tiny());
  auto request = endless(ids(200, 1), 2);
  request.prompt_logprobs = true;
  request.logprobs = 1;
  const Answer alone = ask(*engine, request);
  request.n = 3;
  const Answer a = ask(*engine, request);
  REQUIRE_FALSE(a.error);
  REQUIRE(a.started->prompt.size() == 200);
  for (std::size_t i = 0; i < 200; ++i) {
    CHECK(a.started->prompt[i].chosen.logprob == alone.started->prompt[i].chosen.logprob);
  }
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(a.tokens[c].size() == 2);
    CHECK(a.reasons[c] == FinishReason::length);
  }
}

TEST_CASE("D12: time to first token is counted once for each request that produced a token") {
  auto metrics = std::make_shared<Metrics>();
  const auto engine = make_engine(tiny(), metrics);
  auto request = endless(ids(50, 1), 3);
  request.n = 2;
  ask(*engine, request);
  ask(*engine, endless(ids(50, 1), 3));
  ask(*engine, endless(ids(600, 1), 3));  // refused
  const auto count = metrics->time_to_first_token_seconds(CacheTemperature::cold).count() +
                     metrics->time_to_first_token_seconds(CacheTemperature::warm).count();
  CHECK(count == 2);
  CHECK(metrics->request_prompt_tokens().count() == 2);
}

TEST_CASE("D4: the hit counter and usage come from the same number") {
  auto metrics = std::make_shared<Metrics>();
  const auto engine = make_engine(tiny(), metrics);
  double cached = 0;
  for (int i = 0; i < 6; ++i) cached += ask(*engine, endless(ids(60 + 5 * (i % 2), 1), 3)).cached();
  CHECK(metrics->prefix_cache_hits_total().value() == cached);
  CHECK(cached > 0);
  CHECK(metrics->prefix_cache_queries_total().value() == 3 * 60 + 3 * 65);
}

TEST_CASE("B30: a stop string ends the choice that produced it and only that one") {
  EngineOptions o;
  o.threads = 1;
  o.cache_bytes = 50'000'000;
  const auto engine = make_engine(o);
  GenerateRequest request;
  request.prompt = TextPrompt{"It was a dark and stormy night, and the", false};
  request.max_tokens = 40;
  request.n = 3;
  request.ignore_eos = true;
  request.sampling.temperature = 1.F;
  request.sampling.seed = 4;
  const Answer whole = ask(*engine, request);
  REQUIRE_FALSE(whole.error);
  request.stop = {whole.text[1].substr(10, 6)};
  const Answer cut = ask(*engine, request);
  REQUIRE_FALSE(cut.error);
  CHECK(cut.reasons[1] == FinishReason::stop);
  CHECK(whole.text[1].rfind(cut.text[1], 0) == 0);
  CHECK(cut.text[1].size() <= 10);
  for (std::size_t c : {0U, 2U}) {
    CHECK(whole.text[c].rfind(cut.text[c], 0) == 0);
  }
  require_empty_pools(*engine);
}

TEST_CASE("prompt log-probs begin with the prompt's own first token, also when there is no other") {
  const auto engine = make_engine(tiny());
  for (const std::size_t n : {1U, 2U, 30U}) {
    auto request = endless(ids(n, 3), 1);
    request.prompt_logprobs = true;
    request.logprobs = 1;
    const Answer a = ask(*engine, request);
    REQUIRE_FALSE(a.error);
    REQUIRE(a.started->prompt.size() == n);
    for (std::size_t i = 0; i < n; ++i) CHECK(a.started->prompt[i].chosen.token == ids(n, 3)[i]);
  }
}

TEST_CASE("aborts are counted where they were caught and token gaps within one choice") {
  auto metrics = std::make_shared<Metrics>();
  const auto engine = make_engine(tiny(), metrics);
  auto request = endless(ids(10, 1), 5);
  request.n = 4;
  ask(*engine, request);
  CHECK(metrics->inter_token_latency_seconds().count() == 4 * 4);
  const Failpoints slow("executor.step=sleep:5");
  Call call(*engine, endless(ids(10, 1), 400));
  call.wait_tokens(3);
  call.cancel();
  call.wait();
  CHECK(metrics->aborted_requests_total(AbortedWhere::decode).value() == 1);
}

TEST_CASE("rows held back for a running stream are counted, and how far off expectations were") {
  auto metrics = std::make_shared<Metrics>();
  auto o = tiny();
  o.max_step_ms = 1;
  const auto engine = make_engine(o, metrics);
  const Failpoints slow("executor.step=sleep:2");
  Call stream(*engine, endless(ids(10, 1), 400));
  stream.wait_tokens(8);
  CHECK(metrics->step_rows_held_back_total().value() == 0);
  CHECK(metrics->step_prediction_error().count() == 0);
  CHECK_FALSE(ask(*engine, endless(ids(400, 2), 1)).error);
  CHECK(metrics->step_rows_held_back_total().value() > 0);
  CHECK(metrics->step_prediction_error().count() > 1);
  CHECK(metrics->step_prediction_error().count() == metrics->step_seconds(Phase::mixed).count());
}

TEST_CASE("every choice of an echo begins with the prompt, whose log-probs come once and whole") {
  EngineOptions o;
  o.threads = 1;
  o.cache_bytes = 50'000'000;
  o.max_step_tokens = 16;  // the prompt takes several steps
  const auto engine = make_engine(o);
  GenerateRequest request;
  request.prompt =
      TextPrompt{"It was a dark and stormy night, and the rain fell in torrents on us", false};
  const auto tokens = *engine->tokenize(request.prompt);
  request.max_tokens = 3;
  request.n = 3;
  request.echo = true;
  request.prompt_logprobs = true;
  request.logprobs = 1;
  request.ignore_eos = true;
  request.sampling.temperature = 1.F;
  const Answer a = ask(*engine, request);
  REQUIRE_FALSE(a.error);
  REQUIRE(a.started->prompt.size() == tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    CHECK(a.started->prompt[i].chosen.token == tokens[i]);
  }
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(a.text[c].rfind(std::get<TextPrompt>(request.prompt).text, 0) == 0);
    CHECK(a.logprobs[c].size() == 3);
  }
}
