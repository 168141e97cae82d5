// SPDX-License-Identifier: Apache-2.0
// Who finds whose prompts, what a request that opts out leaves, and how the cache is dropped and
// explained from outside.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/check.hpp"
#include "base/json.hpp"
#include "tests/actors/tiny.hpp"
#include "tests/model/net/temp_dir.hpp"

using namespace cairn;
using namespace cairn::tests;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 5s;

GenerateRequest of(const char* key, const char* salt, std::int32_t prompt = 1) {
  GenerateRequest request = endless(ids(200, prompt), 4);
  request.client_key = key;
  request.cache_salt = salt;
  return request;
}

std::unique_ptr<Engine> by_key() {
  auto options = tiny();
  options.cache_scope = "key";
  return make_engine(options);
}

std::string plan_of(Engine& engine) {
  auto json = engine.plan_json(kPatience);
  REQUIRE(json.ok());
  return json.take();
}

std::size_t nodes_of(Engine& engine) {
  const auto plan = json::parse(plan_of(engine));
  REQUIRE(plan.ok());
  return plan->find("nodes")->items().size();
}

template <class Condition>
bool wait_for(const Condition& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

bool wait_idle(Engine& engine) {
  return wait_for([&] { return engine.stats().running == 0 && engine.stats().waiting == 0; });
}

/// A disk cache behind engines whose prefill takes so long that reading is worth it.
struct SlowDisk {
  cairn::testing::TempDir temp;
  EngineOptions options = tiny();
  SlowDisk() {
    options.disk_dir = temp.file("cache");
    actors::wrap_backends(actors::slow_steps(100us));
  }
  ~SlowDisk() { actors::wrap_backends(nullptr); }
  bool holds(const std::string& text) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.disk_dir)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string all(std::istreambuf_iterator<char>(file), {});
      if (all.find(text) != std::string::npos) return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("under key, a key finds its own prompts and no other key's") {
  const auto engine = by_key();
  const Answer cold = ask(*engine, of("one", ""));
  CHECK(cold.cached() == 0);
  const Answer other = ask(*engine, of("two", ""));
  CHECK(other.cached() == 0);
  CHECK(other.tokens == cold.tokens);
  CHECK(ask(*engine, of("one", "")).cached() > 0);
  CHECK(ask(*engine, of("two", "")).cached() > 0);
  CHECK(ask(*engine, of("one", "s")).cached() == 0);
  CHECK(ask(*engine, of("two", "s")).cached() == 0);
  CHECK(ask(*engine, of("one", "s")).cached() > 0);
}

TEST_CASE("under global, keys do not matter and salts do") {
  const auto engine = make_engine(tiny());
  CHECK(ask(*engine, of("one", "")).cached() == 0);
  CHECK(ask(*engine, of("two", "")).cached() > 0);
  CHECK(ask(*engine, of("", "")).cached() > 0);
  CHECK(ask(*engine, of("one", "s")).cached() == 0);
  CHECK(ask(*engine, of("two", "s")).cached() > 0);
  CHECK(ask(*engine, of("", "t")).cached() == 0);
}

TEST_CASE("prompts of two keys that run together do not wait for one another") {
  const auto engine = by_key();
  Call first(*engine, of("one", "", 2));
  Call second(*engine, of("two", "", 2));
  Call third(*engine, of("one", "", 2));
  CHECK(first.wait().cached() == 0);
  CHECK(second.wait().cached() == 0);
  CHECK_FALSE(third.wait().error);
}

TEST_CASE("under key, a request without a key and a salt that is too long are refused by name") {
  const auto engine = by_key();
  const auto anonymous = ask(*engine, of("", "salt"));
  REQUIRE(anonymous.error);
  CHECK(anonymous.error->param == "client_key");
  const auto longest = ask(*engine, of("one", std::string(256, 's').c_str()));
  CHECK_FALSE(longest.error);
  const auto too_long = ask(*engine, of("one", std::string(257, 's').c_str()));
  REQUIRE(too_long.error);
  CHECK(too_long.error->code == ErrorCode::bad_request);
  CHECK(too_long.error->param == "cache_salt");
  auto options = tiny();
  options.cache_scope = "everyone";
  CHECK_THROWS_WITH(make_engine(options), Catch::Contains("cache_scope"));
}

TEST_CASE("scopes outlive the process on disk, where no file tells key or salt") {
  SlowDisk disk;
  disk.options.cache_scope = "key";
  {
    const auto engine = make_engine(disk.options);
    REQUIRE_FALSE(ask(*engine, of("key-of-one", "salt-of-one")).error);
    REQUIRE(wait_for([&] { return engine->stats().disk_states > 0; }));
    engine->close(5s);
  }
  CHECK_FALSE(disk.holds("key-of-one"));
  CHECK_FALSE(disk.holds("salt-of-one"));
  const auto engine = make_engine(disk.options);
  // First of all: while no speed is known, whatever is on disk is read.
  CHECK(ask(*engine, of("key-of-one", "salt-of-one")).cached() > 0);
  CHECK(ask(*engine, of("key-of-two", "salt-of-one")).cached() == 0);
  CHECK(ask(*engine, of("key-of-one", "")).cached() == 0);
}

TEST_CASE("a request that opts out leaves memory, paths and disk as they were") {
  SlowDisk disk;
  const auto engine = make_engine(disk.options);
  REQUIRE_FALSE(ask(*engine, of("", "")).error);
  REQUIRE(wait_for([&] { return engine->stats().disk_states > 0; }));
  REQUIRE(wait_idle(*engine));
  const auto quiet = [&] {  // what the first request still publishes or writes has come
    std::uint64_t last = 0;
    for (int same = 0; same < 100; ++same) {
      const auto now = engine->stats();
      const auto sum = now.disk_bytes + now.kv_bytes + now.state_bytes;
      if (sum != last) same = 0;
      last = sum;
      std::this_thread::sleep_for(1ms);
    }
  };
  quiet();
  const std::string plan = plan_of(*engine);
  const EngineStats before = engine->stats();
  // A new prompt, one that goes on from a cached one, and one that forks off it.
  for (auto prompt : {ids(300, 9), ids(300, 1), ids(100, 1)}) {
    prompt.back() = (prompt.back() + 1) % 128;
    auto secret = endless(prompt, 20);
    secret.use_cache = false;
    const Answer answer = ask(*engine, secret);
    REQUIRE_FALSE(answer.error);
    CHECK(answer.cached() == 0);
  }
  REQUIRE(wait_idle(*engine));
  quiet();
  const EngineStats after = engine->stats();
  CHECK(plan_of(*engine) == plan);
  CHECK(after.states == before.states);
  CHECK(after.kv_blocks == before.kv_blocks);
  CHECK(after.cached_states == before.cached_states);
  CHECK(after.disk_states == before.disk_states);
  CHECK(after.disk_bytes == before.disk_bytes);
}

TEST_CASE("the plan tells depths and kinds, and grows with what is remembered") {
  const auto engine = make_engine(tiny());
  CHECK(nodes_of(*engine) == 0);
  REQUIRE_FALSE(ask(*engine, of("", "")).error);
  CHECK(nodes_of(*engine) > 0);
  CHECK(plan_of(*engine).find(R"("policy":"forest")") != std::string::npos);
}

TEST_CASE("dropping the cache counts and forgets states, paths and files") {
  SlowDisk disk;
  const auto engine = make_engine(disk.options);
  REQUIRE_FALSE(ask(*engine, of("", "")).error);
  REQUIRE_FALSE(ask(*engine, of("", "s")).error);
  REQUIRE(wait_for([&] { return engine->stats().disk_states > 1; }));
  REQUIRE(wait_idle(*engine));
  const auto dropped = engine->drop_cache(kPatience);
  REQUIRE(dropped.ok());
  CHECK(dropped->paths > 1);
  CHECK(dropped->states > 1);
  CHECK(dropped->bytes > 0);
  CHECK(dropped->disk_states > 1);
  CHECK(dropped->disk_bytes > 0);
  CHECK(engine->stats().disk_states == 0);
  CHECK(nodes_of(*engine) == 0);
  REQUIRE(wait_for([&] { return engine->stats().states == 0; }));
  CHECK(ask(*engine, of("", "")).cached() == 0);
  CHECK(ask(*engine, of("", "")).cached() > 0);
  require_empty_pools(*engine);
}

TEST_CASE("what runs or waits while the cache is dropped is answered and leaves nothing") {
  SlowDisk disk;
  disk.options.max_running = 2;
  disk.options.max_step_tokens = 16;
  const auto engine = make_engine(disk.options);
  std::vector<std::unique_ptr<Call>> calls;  // the second waits for the first, others for a place
  for (const std::int32_t prompt : {1, 1, 2, 3})
    calls.push_back(std::make_unique<Call>(*engine, endless(ids(400, prompt), 4)));
  REQUIRE(wait_for([&] { return engine->stats().running > 0; }));
  std::this_thread::sleep_for(5ms);
  REQUIRE(engine->drop_cache(kPatience).ok());
  for (const auto& call : calls) CHECK_FALSE(call->wait().error);
  REQUIRE(wait_idle(*engine));
  REQUIRE(wait_for([&] { return engine->stats().states == 0; }));
  CHECK(nodes_of(*engine) == 0);
  CHECK(engine->stats().disk_states == 0);
  CHECK(ask(*engine, endless(ids(400, 1), 4)).cached() == 0);
  CHECK(ask(*engine, endless(ids(400, 1), 4)).cached() > 0);
}

TEST_CASE("a prompt that is still text when the cache is dropped leaves nothing either") {
  const auto engine = make_engine(tiny());
  const auto request = endless(ids(200, 3), 2);
  {
    const Failpoints slow("text.prepare=sleep:300");
    Call call(*engine, request);
    REQUIRE(engine->drop_cache(kPatience).ok());
    REQUIRE_FALSE(call.wait().error);
  }
  CHECK(engine->stats().cached_states == 0);
  CHECK(ask(*engine, request).cached() == 0);
  CHECK(ask(*engine, request).cached() == 199);
}

TEST_CASE(
    "what is being read while the cache is dropped does not come back, nor is it waited for") {
  SlowDisk disk;
  const auto request = endless(ids(400, 5), 4);
  {
    const auto engine = make_engine(disk.options);
    REQUIRE_FALSE(ask(*engine, request).error);
    REQUIRE(wait_for([&] { return engine->stats().disk_states > 0; }));
    engine->close(5s);
  }
  const auto engine = make_engine(disk.options);
  const Failpoints slow("disk.fetch=sleep:400*1");
  Call reader(*engine, request);
  std::this_thread::sleep_for(50ms);
  const auto late = engine->drop_cache(20ms);
  REQUIRE_FALSE(late.ok());  // the disk is busy; it hears of it next
  CHECK(late.error().code == ErrorCode::unavailable);
  CHECK(reader.wait().cached() == 0);
  REQUIRE(wait_for([&] { return engine->stats().disk_states == 0; }));
  REQUIRE(wait_idle(*engine));
  CHECK(ask(*engine, request).cached() == 0);
}

TEST_CASE("a cache whose actor dies is asked in vain or answers, and never holds the asker") {
  const auto engine = make_engine(tiny());
  for (int i = 0; i < 20; ++i) {
    actors::kill_actor(*engine, actors::Role::prefix);
    const auto begin = std::chrono::steady_clock::now();
    const auto plan = engine->plan_json(kPatience);
    const auto dropped = engine->drop_cache(kPatience);
    CHECK(std::chrono::steady_clock::now() - begin < 4s);
    if (!plan) CHECK(plan.error().code == ErrorCode::unavailable);
    if (!dropped) CHECK(dropped.error().code == ErrorCode::unavailable);
  }
  REQUIRE(wait_for([&] { return engine->plan_json(kPatience).ok(); }));
  engine->close(1s);
  CHECK(engine->plan_json(kPatience).error().code == ErrorCode::unavailable);
  CHECK(engine->drop_cache(kPatience).error().code == ErrorCode::unavailable);
}
