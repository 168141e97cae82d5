// SPDX-License-Identifier: Apache-2.0
// Where a request ends early, is refused or has to wait: queues, memory, context, time, cancels.
#include <algorithm>
#include <thread>

#include "base/check.hpp"
#include "metrics/metrics.hpp"
#include "tests/actors/tiny.hpp"

using namespace cairn;
using namespace cairn::tests;
using namespace std::chrono_literals;

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
  CHECK(message([](auto& o) { o.max_running = -1; }).find("max_running: ") != std::string::npos);
  CHECK(message([](auto& o) { o.max_step_tokens = -1; }).find("max_step_tokens: ") !=
        std::string::npos);
  for (const std::int32_t ms : {-1, 3'600'001}) {
    CHECK(message([ms](auto& o) { o.max_step_ms = ms; }).find("max_step_ms: ") !=
          std::string::npos);
  }
  CHECK(message([](auto& o) {
          o.max_running = 9;
          o.max_step_tokens = 8;
        }).find("at least max_running (9)") != std::string::npos);
  CHECK(message([](auto& o) { o.cache_bytes = 1000; }) != "accepted");
  CHECK(message([](auto& o) { o.isa = "mmx"; }).find("mmx") != std::string::npos);
}

TEST_CASE("what a batch has room for is the device's default, told and served with") {
  const auto limits = [](EngineOptions o) {
    o.queue_limit = 0;  // a place in the batch alone
    const auto engine = make_engine(o);
    CHECK_FALSE(ask(*engine, endless(ids(40, 1), 3)).error);
    std::vector<std::string> told;
    for (const auto& [name, value] : engine->info().limits) {
      if (name == "max_running" || name == "max_step_tokens") told.push_back(value);
    }
    return told;
  };
  EngineOptions o = tiny();
  CHECK(limits(o) == std::vector<std::string>{"16", "512"});
  o.max_step_tokens = 8;
  CHECK(limits(o) == std::vector<std::string>{"8", "8"});
  o.max_step_tokens = 0;
  o.max_running = 600;
  CHECK(limits(o) == std::vector<std::string>{"600", "600"});
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

TEST_CASE("text that waits is counted by its bytes, but for one prompt alone") {
  auto o = tiny();
  o.max_running = 1;
  o.queue_byte_limit = 1000;
  const auto engine = make_engine(o);
  const auto waiting = [&](std::int64_t n) {
    for (int i = 0; i < 500 && engine->stats().waiting != n; ++i) std::this_thread::sleep_for(5ms);
    return engine->stats().waiting == n;
  };
  const Failpoints slow("executor.step=sleep:10");
  Call runs(*engine, endless(ids(10, 1), 400));
  runs.wait_tokens(1);
  Call large(*engine, endless(ids(400, 2), 2));  // 1,600 bytes: nothing else waits
  REQUIRE(waiting(1));
  const Answer beside = ask(*engine, endless(ids(1, 3), 2));
  REQUIRE(beside.error);
  CHECK(beside.error->code == ErrorCode::queue_full);
  CHECK(beside.error->message.find("1.56 KiB") != std::string::npos);
  large.cancel();
  CHECK(large.wait().error->code == ErrorCode::cancelled);
  REQUIRE(waiting(0));
  Call small(*engine, endless(ids(125, 4), 2));
  Call fits(*engine, endless(ids(125, 5), 2));
  REQUIRE(waiting(2));
  CHECK(ask(*engine, endless(ids(1, 6), 2)).error->code == ErrorCode::queue_full);
  runs.cancel();
  CHECK_FALSE(small.wait().error);
  CHECK_FALSE(fits.wait().error);
  CHECK_FALSE(ask(*engine, endless(ids(400, 7), 2)).error);
}
