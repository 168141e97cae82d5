// SPDX-License-Identifier: Apache-2.0
// A running engine whose model and memory are on a device.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "actors/disk_tier.hpp"
#include "actors/open_device.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "metrics/metrics.hpp"
#include "tests/actors/device_like.hpp"
#include "tests/actors/tiny.hpp"
#include "tests/model/net/temp_dir.hpp"

using namespace cairn;
using namespace cairn::tests;
using namespace std::chrono_literals;

namespace {

GenerateRequest drawn(std::int32_t seed) {
  auto request = endless(ids(static_cast<std::size_t>(100 + 40 * seed), 1), 12);
  request.sampling.temperature = 1.F;
  request.sampling.frequency_penalty = 0.5F;
  request.sampling.seed = static_cast<std::uint64_t>(seed);
  return request;
}

std::vector<Answer> answers(Engine& engine) {
  std::vector<Answer> all;
  for (std::int32_t i = 0; i < 5; ++i) all.push_back(ask(engine, drawn(i)));
  return all;
}

template <class Condition>
bool wait_for(const Condition& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

}  // namespace

TEST_CASE("the record of cublaslt lies beside the cache's directory, however that is spelt") {
  const auto here = std::filesystem::current_path().string();
  CHECK(actors::gemm_record_beside("").empty());
  CHECK(actors::gemm_record_beside("/cache/states") == "/cache/states.cublaslt");
  CHECK(actors::gemm_record_beside("/cache/states//") == "/cache/states.cublaslt");
  CHECK(actors::gemm_record_beside("/cache/states/.") == "/cache/states.cublaslt");
  CHECK(actors::gemm_record_beside(".") == here + ".cublaslt");
}

TEST_CASE("an engine on a device gives the CPU's answers from a cache in the device's memory") {
  const auto cpu = make_engine(tiny());
  const std::vector<Answer> want = answers(*cpu);
  OnDevice device;
  const auto engine = make_engine(tiny());
  const std::vector<Answer> got = answers(*engine);
  for (std::size_t i = 0; i < want.size(); ++i) {
    REQUIRE_FALSE(got[i].error);
    CHECK(got[i].tokens == want[i].tokens);
    CHECK(got[i].cached() == want[i].cached());
  }
  CHECK(got.back().cached() > 0);
  CHECK(device.seen.rows_sampled == 5 * 12);
  REQUIRE(device.seen.arena);
  CHECK(engine->info().device == "fake:0 like a device");
  CHECK(engine->info().cache_bytes <= device.seen.arena->size());
  require_empty_pools(*engine);
}

TEST_CASE("a device has more room in a step than the CPU, as far as the options leave it open") {
  const auto room = [](std::int32_t running, std::int32_t step_tokens, bool cuda) {
    EngineOptions o;
    o.max_running = running;
    o.max_step_tokens = step_tokens;
    const actors::BatchRoom r = actors::batch_room(o, cuda);
    return std::pair(r.running, r.step_tokens);
  };
  CHECK(room(0, 0, false) == std::pair(16, 512));
  CHECK(room(0, 0, true) == std::pair(64, 2048));
  CHECK(room(4, 0, true) == std::pair(4, 2048));
  CHECK(room(4096, 0, true) == std::pair(4096, 4096));
  CHECK(room(0, 48, true) == std::pair(48, 48));
  CHECK(room(7, 33, true) == std::pair(7, 33));
}

TEST_CASE("the first of 16 restores on a device is waited for and timed") {
  OnDevice device;
  auto metrics = std::make_shared<Metrics>();
  const auto engine = make_engine(tiny(), metrics);
  ask(*engine, drawn(3));
  const std::uint64_t before = device.seen.arena->bytes_read;
  for (int i = 0; i < 3; ++i) CHECK(ask(*engine, drawn(3)).cached() > 0);
  CHECK(metrics->state_restore_seconds().count() == 1);
  CHECK(device.seen.arena->bytes_read - before == 2 * 16);
}

TEST_CASE("a cache that the device has no room for is refused with needed and available bytes") {
  OnDevice device;
  auto o = tiny();
  o.cache_bytes = 16 << 20;
  device.seen.free_bytes = 12 << 20;
  CHECK_THROWS_WITH(make_engine(o), Catch::Contains("cache_bytes") &&
                                        Catch::Contains("16.00 MiB needed") &&
                                        Catch::Contains("12.00 MiB available"));
  o.cache_bytes = 0;
  CHECK(make_engine(o)->info().cache_bytes <= (12 << 20) / 10 * 9);
  CHECK(make_engine(o)->info().cache_bytes > 10 << 20);
  device.seen.free_bytes = 1000;
  CHECK_THROWS_WITH(make_engine(o), Catch::Contains("1000 bytes available"));
}

TEST_CASE("states of a device go to disk and come back with the same bits") {
  cairn::testing::TempDir temp;
  auto o = tiny();
  o.disk_dir = temp.file("cache");
  const GenerateRequest request = drawn(8);
  OnDevice device(100us);  // so that reading is worth it
  std::vector<std::vector<std::int32_t>> tokens;
  {
    const auto engine = make_engine(o);
    tokens = ask(*engine, request).tokens;
    REQUIRE(wait_for([&] { return engine->stats().disk_states > 0; }));
    engine->close(5s);
    CHECK(device.seen.arena->bytes_read > 0);
  }
  const auto engine = make_engine(o);
  const std::uint64_t before = device.seen.arena->bytes_written;
  const Answer warm = ask(*engine, request);
  CHECK(warm.tokens == tokens);
  CHECK(warm.cached() > 0);
  CHECK(device.seen.arena->bytes_written > before);
}

TEST_CASE("a new executor goes on with the arena of the old one and what is cached in it") {
  OnDevice device;
  const auto engine = make_engine(tiny());
  const Answer first = ask(*engine, drawn(3));
  actors::kill_actor(*engine, actors::Role::executor);
  REQUIRE(wait_for([&] { return device.seen.arenas_taken_over == 1; }));
  const Answer again = ask(*engine, drawn(3));
  REQUIRE_FALSE(again.error);
  CHECK(again.tokens == first.tokens);
  CHECK(again.cached() > 200);
  CHECK(device.seen.backends == 2);
}

TEST_CASE("a lost device fails what runs and what waits, shows on health and stays lost") {
  OnDevice device;
  auto o = tiny();
  o.max_running = 1;
  auto metrics = std::make_shared<Metrics>();
  const auto engine = make_engine(o, metrics);
  const Failpoints slow("executor.step=sleep:2");
  Call runs(*engine, endless(ids(30, 1), 300));
  runs.wait_tokens(2);
  Call waits(*engine, endless(ids(30, 2), 5));
  CHECK(engine->health().ready);
  device.seen.lost = true;
  for (Call* call : {&runs, &waits}) {
    const Answer a = call->wait();
    REQUIRE(a.error);
    CHECK(a.error->code == ErrorCode::unavailable);
    CHECK(a.error->message.find("restart the server: step: it fell off the bus") !=
          std::string::npos);
    CHECK(a.last_events == 1);
  }
  CHECK_FALSE(engine->health().ready);
  CHECK(engine->health().reason.find("the device was lost") == 0);
  device.seen.lost = false;  // whatever it answers now
  const Answer later = ask(*engine, endless(ids(30, 3), 3));
  REQUIRE(later.error);
  CHECK(later.error->code == ErrorCode::unavailable);
  CHECK_FALSE(engine->health().ready);
  CHECK(device.seen.backends == 1);
  require_empty_pools(*engine);
}

TEST_CASE("states on disk belong to a kind of device, its matrix kernels, weights and KV type") {
  const auto bundle = engine::load_model_bundle(tiny());
  const model::BackendInfo here{.device = "cuda:0 NVIDIA H200 (sm_90)",
                                .isa = "sm_90",
                                .weights = "bf16",
                                .kv = "bf16",
                                .gemm = "exact"};
  const auto hash = [&](auto change) {
    model::BackendInfo info = here;
    change(info);
    return actors::fingerprint_of(*bundle, info).hash();
  };
  const auto same = hash([](auto&) {});
  CHECK(hash([](auto& i) { i.device = "cuda:3 NVIDIA H200 (sm_90)"; }) == same);
  CHECK(hash([](auto& i) { i.device = "cuda:0 NVIDIA A100 (sm_80)"; }) != same);
  CHECK(hash([](auto& i) { i.device = "cpu"; }) != same);
  CHECK(hash([](auto& i) { i.gemm = "cublaslt"; }) != same);
  CHECK(hash([](auto& i) { i.weights = "int8"; }) != same);
  CHECK(hash([](auto& i) { i.kv = "f16"; }) != same);
}

TEST_CASE("options that contradict the device are refused by name") {
  const auto refused = [](auto change, const std::string& text) {
    EngineOptions o = tiny();
    change(o);
    CHECK_THROWS_WITH(make_engine(o), Catch::Contains(text));
  };
  refused([](auto& o) { o.device = "gpu"; }, "device: expected auto, cpu, cuda or cuda:N");
  refused([](auto& o) { o.device = "cuda:"; }, "device: expected");
  refused([](auto& o) { o.device = "cuda:-1"; }, "device: expected");
  refused([](auto& o) { o.gemm = "fast"; }, "gemm: expected exact or cublaslt");
  refused([](auto& o) { o.gemm = "cublaslt"; }, "gemm: expected exact");
  refused([](auto& o) { o.gemm_record = "record"; }, "gemm_record: expected nothing");
  refused([](auto& o) { o.device = "auto", o.gemm = "cublaslt", o.gemm_record = "/"; },
          "gemm_record: expected a file, not the directory '/'");
  refused([](auto& o) { o.weights = "int2"; }, "weights: expected bf16, int8 or int4");
  // Of no use with bf16, but a slip all the same.
  for (const std::string& place : {std::string(), tiny().model + "/none",
                                   tiny().model + "/config.json", std::string("Auto")}) {
    refused([&](auto& o) { o.weights_cache = place; },
            "weights_cache: expected auto, off or a directory, not '" + place + "'");
  }
  refused([](auto& o) { o.device = "cuda:0", o.weights = "int4"; }, "int4 is for the CPU");
  refused([](auto& o) { o.device = "cuda", o.kv = "f32"; }, "f32 is for the CPU");
  CHECK(actors::cuda_index("cuda:12") == 12);
}

TEST_CASE("without a CUDA device, cuda is refused with the reason and auto takes the CPU") {
  // For the driver of a machine that has one: read at its first use in the process.
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EngineOptions o = tiny();
  for (const char* device : {"cuda", "cuda:0"}) {
    o.device = device;
    try {
      make_engine(o);
      FAIL("there is a device");
    } catch (const DeviceError& e) {
      const std::string what = e.what();
      CHECK(what.find("CUDA") != std::string::npos);
      CHECK(what.find('\n') == std::string::npos);
    }
  }
  o.device = "auto";
  CHECK(make_engine(o)->info().device == "cpu");
  o.weights = "int8";
  o.weights_cache = "off";
  CHECK(make_engine(o)->info().weights == "int8/128");
}

TEST_CASE("states on disk of one weight format are none of another's") {
  EngineOptions o = tiny();
  o.weights_cache = "off";
  std::set<engine::FingerprintHash> seen;
  for (const char* weights : {"bf16", "int8", "int4"}) {
    o.weights = weights;
    const auto bundle = engine::load_model_bundle(o, actors::format_to_load(o));
    const auto device = actors::DeviceOpener(o, bundle->weights, 256).open();
    seen.insert(actors::fingerprint_of(*bundle, device.backend->info()).hash());
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("weights made for a CUDA device that fails are not taken for those of the CPU") {
  EngineOptions o = tiny();
  o.device = "auto";
  o.weights = "int8";
  const auto bundle = engine::load_model_bundle(o);  // in bf16, as for a CUDA device
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK_THROWS_WITH(actors::DeviceOpener(o, bundle->weights, 256).open(),
                    Catch::Contains("the device must be cpu"));
}

TEST_CASE("auto with keys and values that only the CPU has takes the CPU and says why") {
  std::string said;
  set_log_sink([&](LogLevel, std::string_view line) { said += line; });
  EngineOptions o = tiny();
  o.device = "auto";
  o.kv = "f32";
  const auto engine = make_engine(o);
  set_log_sink(nullptr);
  CHECK(engine->info().device == "cpu");
  CHECK(said.find("serving on the CPU: keys and values of type f32") != std::string::npos);
}

TEST_CASE("a device's default cache is nine tenths of what is left, or one context's") {
  constexpr model::MemoryLayout kLayout{.kv_block_bytes = 1000, .state_bytes = 5000};
  CHECK(actors::device_cache_bytes(1'000'000, kLayout, 1600) == 900'000);
  CHECK(actors::device_cache_bytes(115'000, kLayout, 1600) == 111'000);  // 2 states, 101 blocks
  CHECK(actors::device_cache_bytes(100'000, kLayout, 1600) == 100'000);
}
