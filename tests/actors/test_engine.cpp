// SPDX-License-Identifier: Apache-2.0
// What a user of the public API relies on besides exactness: limits, cancels, sharing, numbers.
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

TEST_CASE("A23: aborted requests leave the pools where they began, wherever they were caught") {
  auto o = tiny();
  o.max_step_tokens = 16;
  o.max_running = 2;
  const auto engine = make_engine(o);
  const Failpoints slow("executor.step=sleep:1");
  for (int i = 0; i < 40; ++i) {
    Call call(*engine, endless(ids(300, i), 40));
    if (i % 4 == 1) std::this_thread::sleep_for(2ms);
    if (i % 4 == 2) call.wait_tokens(1);
    if (i % 4 == 3) call.wait_tokens(5);
    call.cancel();
    const Answer a = call.wait();
    CHECK(a.last_events == 1);
    CHECK((!a.error || a.error->code == ErrorCode::cancelled));
  }
  require_empty_pools(*engine);
}

TEST_CASE("a cancel takes effect within a step or two") {
  const auto engine = make_engine(tiny());
  const Failpoints slow("executor.step=sleep:20");
  Call call(*engine, endless(ids(10, 1), 400));
  call.wait_tokens(2);
  const auto start = std::chrono::steady_clock::now();
  call.cancel();
  const Answer a = call.wait();
  CHECK(a.error->code == ErrorCode::cancelled);
  // All of it would take eight seconds; a loaded machine may stretch a step a hundredfold.
  CHECK(std::chrono::steady_clock::now() - start < 3s);
}

TEST_CASE("a request whose time runs out fails with deadline and frees its place") {
  const auto engine = make_engine(tiny());
  const Failpoints slow("executor.step=sleep:20");
  auto request = endless(ids(10, 1), 400);
  request.timeout = 200ms;
  const Answer a = ask(*engine, request);
  REQUIRE(a.error);
  CHECK(a.error->code == ErrorCode::deadline);
  require_empty_pools(*engine);
}

TEST_CASE("a full queue refuses at the door and serves again when it has drained") {
  auto o = tiny();
  o.max_running = 1;
  o.queue_limit = 2;
  const auto engine = make_engine(o);
  std::vector<std::unique_ptr<Call>> calls;
  {
    const Failpoints slow("executor.step=sleep:20");
    for (int i = 0; i < 8; ++i) {
      calls.push_back(std::make_unique<Call>(*engine, endless(ids(10, i), 5)));
    }
    std::this_thread::sleep_for(20ms);
  }
  int refused = 0;
  for (auto& call : calls) {
    const Answer a = call->wait();
    if (a.error) {
      CHECK(a.error->code == ErrorCode::queue_full);
      ++refused;
    }
  }
  CHECK(refused >= 3);
  CHECK(refused < 8);
  CHECK_FALSE(ask(*engine, endless(ids(10, 1), 2)).error);
}

TEST_CASE("B27: a prompt that does not fit the context is refused with both numbers") {
  const auto engine = make_engine(tiny());
  const Answer a = ask(*engine, endless(ids(600, 1), 1));
  REQUIRE(a.error);
  CHECK(a.error->code == ErrorCode::context_overflow);
  CHECK(a.error->message.find("512") != std::string::npos);
  CHECK(a.error->message.find("60") != std::string::npos);
}

TEST_CASE("E9: an answer that reaches the end of the context finishes with length") {
  const auto engine = make_engine(tiny());
  auto request = endless(ids(500, 1), 1);
  request.max_tokens.reset();
  const Answer a = ask(*engine, request);
  REQUIRE_FALSE(a.error);
  CHECK(a.reasons[0] == FinishReason::length);
  CHECK(a.tokens[0].size() == 12);
}

TEST_CASE(
    "requests that need more memory than the cache can ever have are refused with both sizes") {
  auto o = tiny();
  o.cache_bytes = 70'000;
  const auto engine = make_engine(o);
  const Answer a = ask(*engine, endless(ids(400, 1), 100));
  REQUIRE(a.error);
  CHECK(a.error->code == ErrorCode::no_memory);
  CHECK_FALSE(ask(*engine, endless(ids(30, 1), 3)).error);
}

TEST_CASE(
    "memory that runs out while decoding preempts the youngest and nobody can tell from the "
    "answers") {
  auto metrics = std::make_shared<Metrics>();
  auto o = tiny();
  o.cache_bytes = 420'000;
  o.policy = "last";
  const auto engine = make_engine(o, metrics);
  std::vector<Answer> alone;
  for (int i = 0; i < 4; ++i) {
    auto r = endless(ids(20, 40 + i), 420);
    r.use_cache = false;
    alone.push_back(ask(*engine, r));
  }
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(std::make_unique<Call>(*engine, endless(ids(20, 40 + i), 420)));
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Answer a = calls[i]->wait();
    REQUIRE_FALSE(a.error);
    CHECK(a.tokens == alone[i].tokens);
  }
  CHECK(metrics->preemptions_total().value() > 0);
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

TEST_CASE("options that make no sense are refused by name at start") {
  const auto message = [](auto change) {
    EngineOptions o = tiny();
    change(o);
    try {
      make_engine(o);
    } catch (const LoadError& e) {
      return std::string(e.what());
    } catch (const DeviceError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(message([](auto& o) { o.policy = "magic"; }).find("magic") != std::string::npos);
  CHECK(message([](auto& o) { o.kv = "int3"; }).find("int3") != std::string::npos);
  CHECK(message([](auto& o) { o.context_length = 100000; }).find("512") != std::string::npos);
  CHECK(message([](auto& o) { o.model = "/nowhere/at/all"; }).find("/nowhere/at/all") !=
        std::string::npos);
  CHECK(message([](auto& o) { o.max_running = 0; }).find("max_running") != std::string::npos);
  CHECK(message([](auto& o) { o.cache_bytes = 1000; }) != "accepted");
  CHECK(message([](auto& o) { o.isa = "mmx"; }).find("mmx") != std::string::npos);
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

TEST_CASE("a cancel that reaches the executor before its request does is not lost") {
  const auto engine = make_engine(tiny());
  const Failpoints slow("executor.step=sleep:60");
  Call busy(*engine, endless(ids(10, 1), 400));
  busy.wait_tokens(1);
  for (int i = 0; i < 5; ++i) {
    Call call(*engine, endless(ids(20, 2 + i), 300));
    std::this_thread::sleep_for(15ms);  // admitted while the executor is inside a step
    const auto start = std::chrono::steady_clock::now();
    call.cancel();
    CHECK(call.wait().error->code == ErrorCode::cancelled);
    CHECK(std::chrono::steady_clock::now() - start < 2s);
  }
}

TEST_CASE(
    "more requests than the cache can hold at once are served one after the other, none refused") {
  for (const std::uint64_t bytes : {260'000, 200'000, 150'000}) {
    auto o = tiny();
    o.cache_bytes = bytes;
    const auto engine = make_engine(o);
    for (int round = 0; round < 12; ++round) {
      std::vector<std::unique_ptr<Call>> calls;
      for (int i = 0; i < 6; ++i) {
        calls.push_back(std::make_unique<Call>(*engine, endless(ids(100, 10 * round + i), 4)));
      }
      for (auto& call : calls) {
        const Answer a = call->wait();
        CAPTURE(bytes, round);
        REQUIRE_FALSE(a.error);
      }
    }
    CHECK_FALSE(ask(*engine, endless(ids(5, 1), 2)).error);
    require_empty_pools(*engine);
  }
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
