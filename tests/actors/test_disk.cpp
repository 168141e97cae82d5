// SPDX-License-Identifier: Apache-2.0
// The disk tier behind a running engine: restarts resume warm with the same bits, and nothing that
// disk or files do costs more than recomputing.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/check.hpp"
#include "base/log.hpp"
#include "engine/cache/disk_store.hpp"
#include "engine/placement/plan_snapshot.hpp"
#include "metrics/metrics.hpp"
#include "tests/actors/tiny.hpp"
#include "tests/model/net/temp_dir.hpp"

using namespace cairn;
using namespace cairn::tests;
using namespace std::chrono_literals;

namespace {

/// A directory, and engines whose prefill takes so long that reading is worth it.
struct Disk {
  cairn::testing::TempDir temp;
  EngineOptions options = tiny();
  std::shared_ptr<Metrics> metrics;

  explicit Disk(std::chrono::microseconds per_token = 100us) {
    options.disk_dir = temp.file("cache");
    actors::wrap_backends(actors::slow_steps(per_token));
  }
  ~Disk() { actors::wrap_backends(nullptr); }
  std::unique_ptr<Engine> start() {
    metrics = std::make_shared<Metrics>();
    return make_engine(options, metrics);
  }
};

template <class Condition>
bool wait_for(const Condition& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

Answer cold_answer(const GenerateRequest& request) {
  const auto engine = make_engine(tiny());
  auto cold = request;
  cold.use_cache = false;
  return ask(*engine, cold);
}

/// Waits until states have been written and no more come.
bool written(const Engine& engine) {
  std::int64_t seen = 0;
  int quiet_ms = 0;
  for (int ms = 0; ms < 10'000 && quiet_ms < 300; ++ms) {
    std::this_thread::sleep_for(1ms);
    const std::int64_t now = engine.stats().disk_states;
    quiet_ms = now > 0 && now == seen ? quiet_ms + 1 : 0;
    seen = now;
  }
  return quiet_ms == 300;
}

/// Serves one request and ends with its states on disk.
void leave_on_disk(Disk& disk, const GenerateRequest& request) {
  const auto engine = disk.start();
  REQUIRE_FALSE(ask(*engine, request).error);
  REQUIRE(wait_for([&] { return engine->stats().disk_states > 0; }));
  CHECK(engine->close(5s).empty());
}

}  // namespace

TEST_CASE("a restarted engine resumes from disk, with the bits of a cold one") {
  Disk disk;
  auto request = endless(ids(400, 1), 12);
  request.sampling.temperature = 1.F;
  request.sampling.seed = 3;
  const Answer cold = cold_answer(request);
  leave_on_disk(disk, request);
  const auto engine = disk.start();
  CHECK(engine->stats().disk_states > 0);
  const Answer warm = ask(*engine, request);
  REQUIRE_FALSE(warm.error);
  CHECK(warm.cached() == 399);
  CHECK(warm.tokens == cold.tokens);
  CHECK(disk.metrics->disk_read_waits_total().value() == 1);
  CHECK(disk.metrics->state_restore_seconds(Tier::disk).count() == 1);
  // It is in memory now.
  CHECK(ask(*engine, request).tokens == cold.tokens);
  CHECK(disk.metrics->state_restore_seconds(Tier::disk).count() == 1);
}

TEST_CASE("a conversation goes on across restarts, each turn from the last one's end") {
  Disk disk;
  auto prompt = ids(200, 2);
  for (int turn = 0; turn < 3; ++turn) {
    const auto engine = disk.start();
    const auto request = endless(prompt, 8);
    const Answer answer = ask(*engine, request);
    REQUIRE_FALSE(answer.error);
    CHECK(answer.tokens == cold_answer(request).tokens);
    if (turn > 0) CHECK(answer.cached() >= static_cast<int>(prompt.size()) - 40);
    prompt.insert(prompt.end(), answer.tokens[0].begin(), answer.tokens[0].end());
    const auto more = ids(20, 50 + turn);
    prompt.insert(prompt.end(), more.begin(), more.end());
    engine->close(5s);
  }
}

TEST_CASE("what memory had to give up is read from disk") {
  // A read is waited for as long as computing takes: 200 ms, in which a loaded machine reads, too.
  Disk disk(500us);
  disk.options.cache_bytes = 600'000;
  disk.options.policy = "branch";  // what goes does not depend on measured costs
  const auto engine = disk.start();
  const auto first = endless(ids(400, 3), 2);
  const Answer cold = ask(*engine, first);
  REQUIRE(written(*engine));
  for (std::int32_t i = 0; i < 8; ++i) {
    REQUIRE_FALSE(ask(*engine, endless(ids(400, 100 + i), 2)).error);
  }
  REQUIRE(written(*engine));
  const double before = disk.metrics->state_restore_seconds(Tier::disk).count();
  const Answer again = ask(*engine, first);
  CHECK(again.cached() >= 390);
  CHECK(again.tokens == cold.tokens);
  CHECK(disk.metrics->state_restore_seconds(Tier::disk).count() == before + 1);
}

TEST_CASE("a request that refuses the cache leaves nothing on disk and takes nothing from it") {
  Disk disk;
  auto request = endless(ids(300, 4), 2);
  {
    const auto engine = disk.start();
    auto secret = request;
    secret.use_cache = false;
    REQUIRE_FALSE(ask(*engine, secret).error);
    engine->close(5s);
    CHECK(engine->stats().disk_states == 0);
  }
  leave_on_disk(disk, request);
  const auto engine = disk.start();
  request.use_cache = false;
  CHECK(ask(*engine, request).cached() == 0);
  CHECK(disk.metrics->disk_read_waits_total().value() == 0);
}

TEST_CASE("flipped files are counted and deleted, and the request computes") {
  Disk disk;
  const auto request = endless(ids(400, 5), 6);
  const Answer cold = cold_answer(request);
  leave_on_disk(disk, request);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(disk.options.disk_dir)) {
    if (entry.path().extension() != ".kv") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300);
    file.put('\x55');
    file.seekp(301);
    file.put('\x55');
  }
  const auto engine = disk.start();
  const Answer answer = ask(*engine, request);
  REQUIRE_FALSE(answer.error);
  CHECK(answer.cached() == 0);
  CHECK(answer.tokens == cold.tokens);
  CHECK(disk.metrics->disk_refused_files_total(RefusedFile::corrupt).value() >= 1);
}

TEST_CASE("one flipped state costs itself: the request resumes from the next shallower one") {
  Disk disk;
  const auto request = endless(ids(400, 25), 6);
  const auto shorter = endless(ids(200, 25), 1);
  const Answer cold = cold_answer(request);
  leave_on_disk(disk, shorter);
  std::set<std::filesystem::path> before;
  for (const auto& e : std::filesystem::recursive_directory_iterator(disk.options.disk_dir)) {
    before.insert(e.path());
  }
  leave_on_disk(disk, request);
  int flipped = 0;
  for (const auto& e : std::filesystem::recursive_directory_iterator(disk.options.disk_dir)) {
    if (e.path().extension() != ".state" || before.count(e.path()) != 0) continue;
    std::fstream file(e.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300);
    file.write("flip", 4);
    ++flipped;
  }
  REQUIRE(flipped > 0);
  const auto engine = disk.start();
  const Answer answer = ask(*engine, request);
  CHECK(answer.cached() >= 199);
  CHECK(answer.tokens == cold.tokens);
  CHECK(disk.metrics->disk_refused_files_total(RefusedFile::corrupt).value() >= 1);
}

TEST_CASE("files that are found cut at start are counted before anybody asks for them") {
  Disk disk;
  leave_on_disk(disk, endless(ids(400, 15), 2));
  int cut = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(disk.options.disk_dir)) {
    if (entry.path().extension() != ".state") continue;
    std::filesystem::resize_file(entry.path(), 500);
    ++cut;
  }
  REQUIRE(cut > 0);
  const auto engine = disk.start();
  CHECK(wait_for(
      [&] { return disk.metrics->disk_refused_files_total(RefusedFile::corrupt).value() == cut; }));
  CHECK(engine->stats().disk_states == 0);
}

TEST_CASE("a disk that fails or hangs costs a request no more than computing") {
  Disk disk;
  const auto request = endless(ids(400, 6), 6);
  const auto other = endless(ids(400, 66), 6);
  const Answer cold = cold_answer(request);
  leave_on_disk(disk, request);
  leave_on_disk(disk, other);
  {
    const auto engine = disk.start();
    const Failpoints broken("disk.fetch=fail");
    const Answer answer = ask(*engine, request);
    CHECK(answer.cached() == 0);
    CHECK(answer.tokens == cold.tokens);
  }
  const auto engine = disk.start();
  const Failpoints hangs("disk.fetch=sleep:3000*1");
  const auto begin = std::chrono::steady_clock::now();
  const Answer answer = ask(*engine, request);
  CHECK(std::chrono::steady_clock::now() - begin < 2500ms);
  CHECK(answer.cached() == 0);
  CHECK(answer.tokens == cold.tokens);
  CHECK(disk.metrics->disk_reads_late_total().value() == 1);
  // While it hangs nobody else tries.
  CHECK(ask(*engine, other).cached() == 0);
  CHECK(disk.metrics->disk_read_waits_total().value() == 1);
}

TEST_CASE(
    "several requests for one state on disk wait for one read, and a cancelled one for none") {
  Disk disk;
  const auto request = endless(ids(400, 11), 4);
  const Answer cold = cold_answer(request);
  leave_on_disk(disk, request);
  const auto engine = disk.start();
  const Failpoints slow("disk.fetch=sleep:300*1");
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(std::make_unique<Call>(*engine, request));
  std::this_thread::sleep_for(50ms);
  calls[1]->cancel();
  CHECK(calls[1]->wait().error->code == ErrorCode::cancelled);
  for (const std::size_t i : {0U, 2U, 3U}) {
    const Answer warm = calls[i]->wait();
    CHECK(warm.cached() == 399);
    CHECK(warm.tokens == cold.tokens);
  }
  CHECK(disk.metrics->state_restore_seconds(Tier::disk).count() == 1);
  require_empty_pools(*engine);
}

TEST_CASE("a full disk is told and harms nobody") {
  Disk disk;
  const auto engine = disk.start();
  const Failpoints full("disk.write=fail:0");
  const auto request = endless(ids(400, 7), 4);
  const Answer first = ask(*engine, request);
  REQUIRE(wait_for([&] { return disk.metrics->disk_write_failures_total().value() >= 1; }));
  CHECK(ask(*engine, request).tokens == first.tokens);
  CHECK(engine->stats().disk_states == 0);
  require_empty_pools(*engine);
}

TEST_CASE("a disk actor that dies is replaced and goes on where the files are") {
  Disk disk;
  const auto request = endless(ids(400, 8), 4);
  const Answer cold = cold_answer(request);
  leave_on_disk(disk, request);
  const auto engine = disk.start();
  actors::kill_actor(*engine, actors::Role::disk);
  REQUIRE(
      wait_for([&] { return disk.metrics->actor_restarts_total(ActorName::disk).value() == 1; }));
  const Answer warm = ask(*engine, request);
  CHECK(warm.cached() == 399);
  CHECK(warm.tokens == cold.tokens);
}

TEST_CASE("one directory serves one engine at a time") {
  Disk disk;
  const auto engine = disk.start();
  CHECK_THROWS_WITH(make_engine(disk.options), Catch::Contains("is in use by process"));
}

TEST_CASE("a directory that cannot be written now is told, counted, and served without") {
  Disk disk;
  disk.start();
  std::atomic<bool> told{false};
  set_log_sink([&](LogLevel, std::string_view line) {
    if (line.find("serving without a disk cache") != std::string_view::npos) told = true;
  });
  std::unique_ptr<Engine> engine;
  {
    const Failpoints read_only("disk.lock=fail");
    engine = disk.start();
  }
  set_log_sink({});
  CHECK(told);
  CHECK_FALSE(ask(*engine, endless(ids(100, 12), 4)).error);
  CHECK(engine->stats().disk_bytes == 0);
  CHECK(wait_for([&] { return disk.metrics->disk_write_failures_total().value() == 1; }));
}

TEST_CASE("a directory that can never be used, or could hold no state, ends the start") {
  Disk disk;
  disk.temp.write("file", "x");
  for (const std::string& useless : {disk.temp.file("file"), disk.temp.file("file") + "/cache",
                                     std::string("/proc"), std::string("/proc/cache")}) {
    disk.options.disk_dir = useless;
    CHECK_THROWS_WITH(make_engine(disk.options), Catch::Contains("the cache directory " + useless));
  }
  disk.options.disk_dir = disk.temp.file("cache");
  disk.options.disk_bytes = 1 << 20U;
  CHECK_THROWS_WITH(make_engine(disk.options), Catch::Contains("holds no state below"));
}

TEST_CASE("another KV type has a store of its own beside; another thread count the same files") {
  Disk disk;
  const auto request = endless(ids(400, 9), 4);
  leave_on_disk(disk, request);
  disk.options.threads = 2;
  CHECK(ask(*disk.start(), request).cached() == 399);
  disk.options.kv = "f32";
  {
    const auto engine = disk.start();
    CHECK(engine->stats().disk_states == 0);
    CHECK(ask(*engine, request).cached() == 0);
    REQUIRE(wait_for([&] { return engine->stats().disk_states > 0; }));
    engine->close(5s);
  }
  CHECK(ask(*disk.start(), request).cached() == 399);
  disk.options.kv = tiny().kv;
  CHECK(ask(*disk.start(), request).cached() == 399);
}

TEST_CASE("dropping the cache drops what is on disk") {
  Disk disk;
  const auto request = endless(ids(400, 10), 4);
  leave_on_disk(disk, request);
  const auto engine = disk.start();
  actors::drop_cache(*engine);
  REQUIRE(wait_for([&] { return engine->stats().disk_states == 0; }));
  CHECK(ask(*engine, request).cached() == 0);
}

TEST_CASE("what the default rule has learned outlives the engine") {
  // Of prompts that never come back a new one is expected back far less often than at a cold start.
  const auto rate_of_first = [](Engine& engine) {
    ask(engine, endless(ids(60, 500), 1));
    const auto plan = engine.plan_json(5s);
    REQUIRE(plan.ok());
    const auto snapshot = engine::parse_plan_snapshot(*plan);
    REQUIRE(snapshot.ok());
    double rate = 0;
    for (const auto& node : snapshot->nodes) rate += node.depth == 60 ? node.rate : 0;
    return rate;
  };
  cairn::testing::TempDir temp;
  auto options = tiny();
  const double cold = rate_of_first(*make_engine(options));
  options.disk_dir = temp.file("cache");
  {
    const auto engine = make_engine(options);
    for (int i = 0; i < 120; ++i)
      ask(*engine, endless(ids(static_cast<std::size_t>(40 + i), i), 1));
    CHECK(engine->close(5s).empty());
  }
  const double warm = rate_of_first(*make_engine(options));
  CHECK(cold > 0);
  CHECK(warm > 0);
  CHECK(warm < cold / 3);
}
