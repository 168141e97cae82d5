// SPDX-License-Identifier: Apache-2.0
// The prefix actor's side of the disk tier without threads: what is sent to whom, and when.
#include <filesystem>
#include <fstream>
#include <numeric>

#include "actors/disk_desk.hpp"
#include "actors/disk_side.hpp"
#include "actors/disk_tier.hpp"
#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "engine/cache/disk_directory.hpp"
#include "engine/placement/policy_names.hpp"
#include "metrics/metrics.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::actors;

namespace {

constexpr model::MemoryLayout kLayout{.kv_block_bytes = 128, .state_bytes = 1024};

/// Keeps what is for the router, the prefix actor and the disk; the rest is of no matter here.
struct Post final : Mail {
  std::vector<RouterMessage> to_router;
  std::vector<PrefixMessage> to_prefix;
  std::vector<DiskMessage> to_disk;

  void router(RouterMessage m) override { to_router.push_back(std::move(m)); }
  void prefix(PrefixMessage m) override { to_prefix.push_back(std::move(m)); }
  void disk(DiskMessage m) override { to_disk.push_back(std::move(m)); }
  void router_after(std::chrono::milliseconds, RouterMessage) override {}
  void prefix_after(std::chrono::milliseconds, PrefixMessage) override {}
  void planner(PlannerMessage) override {}
  void executor(ExecutorMessage) override {}
  void executor_urgent(ExecutorMessage) override {}
  void checkpoints(CheckpointMessage) override {}
  void disk_after(std::chrono::milliseconds, DiskMessage) override {}
  void worker(int, WorkerMessage) override {}

  template <class Message, class List>
  static std::vector<Message> take(List& list) {
    std::vector<Message> out;
    std::erase_if(list, [&](auto& m) {
      auto* found = std::get_if<Message>(&m);
      if (found) out.push_back(std::move(*found));
      return found != nullptr;
    });
    return out;
  }
};

engine::TokenSeq prompt(std::size_t tokens, std::int32_t first = 0) {
  auto out = std::make_shared<std::vector<std::int32_t>>(tokens);
  std::iota(out->begin(), out->end(), first);
  return out;
}

/// A cache, a disk and what stands between them; computing a token takes a second, so that every
/// read pays.
struct Bench {
  cairn::testing::TempDir temp;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  Post mail;
  std::unique_ptr<engine::PrefixCache> cache;
  std::unique_ptr<DiskSide> side;
  std::unique_ptr<DiskDesk> desk;
  SequenceId next = 1;

  explicit Bench(const char* policy = "forest") {
    shared->metrics = std::make_shared<Metrics>();
    shared->pools = std::make_shared<engine::MemoryPools>(kLayout, 10'000'000);
    shared->copy_kv_slots = [](const std::byte* from, std::byte* to, std::int32_t) {
      std::copy_n(from, kLayout.kv_block_bytes, to);
    };
    shared->seconds_per_prefill_token = 1;
    engine::DiskOptions options;
    options.dir = temp.file("cache");
    options.max_bytes = 1'000'000'000;
    options.layout = kLayout;
    shared->disk = engine::DiskStore::open(options).take();
    cache = std::make_unique<engine::PrefixCache>(*shared->pools,
                                                  engine::make_cache_policy(policy).take());
    side = std::make_unique<DiskSide>(shared, mail, *cache);
    desk = std::make_unique<DiskDesk>(shared, mail);
  }

  Lookup lookup(const engine::TokenSeq& tokens) {
    auto request = std::make_shared<engine::LookupRequest>();
    request->id = next++;
    request->tokens = tokens;
    return {request, 0};
  }
  engine::SavedState saved(const engine::TokenSeq& tokens, std::int32_t position) {
    auto room = shared->pools->reserve(engine::blocks_for(position), 1);
    engine::SavedState s;
    s.tokens = tokens;
    s.position = position;
    s.state = room->take_state();
    while (room->blocks_left() > 0) s.blocks.push_back(room->take_block());
    return s;
  }
  void to_disk(const engine::TokenSeq& tokens, std::int32_t position) {
    desk->handle(StoreState{std::make_shared<engine::SavedState>(saved(tokens, position))});
  }
  /// The disk does all that it was asked, and the answers come back.
  void run_disk() {
    for (auto& m : std::exchange(mail.to_disk, {})) desk->handle(m);
    for (const auto& m : Post::take<Fetched>(mail.to_prefix)) side->on(m);
    for (const auto& m : Post::take<DiskIdle>(mail.to_prefix)) side->on(m);
  }
  std::int32_t in_memory(const engine::TokenSeq& tokens) const {
    return cache->held("", *tokens, 1 << 30).position;
  }
  /// Writes to all files of states that lie so deep.
  void spoil(std::int32_t position) {
    for (const auto& e : shared->disk->entries()) {
      if (e.position != position) continue;
      for (const auto& f : std::filesystem::recursive_directory_iterator(temp.file("cache"))) {
        if (f.path().filename() != engine::state_file_name(e.id)) continue;
        std::fstream file(f.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(600);
        file.write("spoilt", 6);
      }
    }
  }
};

}  // namespace

TEST_CASE("a read that fails leaves the next shallower state, whoever waits for it") {
  Bench b;
  const auto tokens = prompt(400);
  for (const int position : {100, 200, 300}) b.to_disk(tokens, position);
  b.spoil(300);
  const auto first = b.lookup(tokens);
  const auto second = b.lookup(tokens);
  REQUIRE(b.side->hold(first));
  REQUIRE(b.side->hold(second));
  b.run_disk();
  CHECK(b.in_memory(tokens) == 0);
  CHECK(Post::take<Unparked>(b.mail.to_router).size() == 2);
  // Looked up again they wait for one more read, and for none after a good one.
  REQUIRE(b.side->hold(first));
  REQUIRE(b.side->hold(second));
  b.run_disk();
  CHECK(b.in_memory(tokens) == 200);
  CHECK_FALSE(b.side->hold(first));
  CHECK_FALSE(b.side->hold(second));
}

TEST_CASE("when the system reads nothing, each state is tried once and then it is computed") {
  Bench b;
  const auto tokens = prompt(400);
  for (const int position : {100, 200, 300}) b.to_disk(tokens, position);
  const auto lookup = b.lookup(tokens);
  set_failpoints("disk.fetch=fail");
  for (int read = 0; read < 3; ++read) {
    REQUIRE(b.side->hold(lookup));
    b.run_disk();
  }
  CHECK_FALSE(b.side->hold(lookup));
  set_failpoints("");
  CHECK(b.shared->disk->stat().states == 3);
}

TEST_CASE("a read is not joined by who finds a deeper state in memory") {
  Bench b;
  const auto tokens = prompt(400);
  b.to_disk(tokens, 200);
  REQUIRE(b.side->hold(b.lookup(tokens)));
  const auto shallow = b.lookup(prompt(250));
  b.cache->publish(b.saved(tokens, 300));
  CHECK_FALSE(b.side->hold(b.lookup(tokens)));
  CHECK(b.side->hold(shallow));  // which that state does not serve
}

namespace {

/// A prompt is served from memory and its state published, as far as the disk's side sees it.
void serve(Bench& b, const engine::TokenSeq& tokens) {
  const Lookup lookup = b.lookup(tokens);
  auto found = b.cache->lookup(*lookup.request);
  auto& lease = std::get<engine::Lease>(found);
  b.side->seen(*lookup.request, lease);
  for (engine::PlannedSave& save : lease.saves) {
    auto saved = b.saved(tokens, save.position);
    saved.state = std::move(save.state);
    saved.kind = save.kind;
    b.side->offer(saved);
    b.cache->publish(std::move(saved));
    b.side->write_next();
  }
  b.cache->end(lookup.request->id);
}

}  // namespace

TEST_CASE("a state goes to disk only where its predicted hits pay the write") {
  Bench b;
  b.shared->seconds_per_prefill_token = 2.5e-5;  // 10 ms for the prompt
  serve(b, prompt(400));
  b.run_disk();
  CHECK(b.shared->disk->stat().states > 0);
  Bench slow;
  slow.shared->seconds_per_prefill_token = 2.5e-5;
  set_failpoints("disk.sync=sleep:250");
  slow.to_disk(prompt(40, 5000), 40);  // a write is known to take that long from now on
  set_failpoints("");
  const auto before = slow.shared->disk->stat().states;
  serve(slow, prompt(400));
  slow.run_disk();
  CHECK(slow.shared->disk->stat().states == before);
  // Asked for again and again, the same state pays.
  for (int i = 0; i < 20; ++i) serve(slow, prompt(400));
  slow.run_disk();
  CHECK(slow.shared->disk->stat().states > before);
}

TEST_CASE("what the policy expects of places on disk reaches the disk, for all of them in turn") {
  Bench b;
  serve(b, prompt(400));
  serve(b, prompt(300, 7000));
  for (int i = 0; i < 4; ++i) b.run_disk();
  const auto rate_of = [&](const engine::TokenSeq& tokens) {
    double rate = 0;  // of the prompt's end
    for (const auto& e : b.shared->disk->entries()) {
      const bool end = e.tokens.size() + 1 == tokens->size();
      if (end && e.tokens[0] == tokens->at(0)) rate = e.rate;
    }
    return rate;
  };
  const double first = rate_of(prompt(400));
  const double second = rate_of(prompt(300, 7000));
  CHECK(first > 0);
  CHECK(second > 0);
  for (int i = 0; i < 130; ++i) serve(b, prompt(400));
  b.run_disk();
  CHECK(rate_of(prompt(400)) > 2 * first);
  CHECK(rate_of(prompt(300, 7000)) < second / 2);
}

TEST_CASE("a policy that predicts nothing writes what is quicker read than computed") {
  Bench b("branch");
  serve(b, prompt(400));
  b.run_disk();
  CHECK(b.shared->disk->stat().states == 1);
  b.shared->seconds_per_prefill_token = 1e-9;
  serve(b, prompt(400, 7000));
  b.run_disk();
  CHECK(b.shared->disk->stat().states == 1);
}

TEST_CASE("what a store holds already is not missing from its default size") {
  const cairn::testing::TempDir dir;
  constexpr std::uint64_t kFree = 1 << 30, kHeld = 1 << 20;
  CHECK(default_disk_bytes(dir.file("none"), kFree) == kFree / 4);
  CHECK(default_disk_bytes(dir.path(), kFree) == kFree / 4);
  std::filesystem::create_directory(dir.file("store"));
  dir.write("store/segment", std::string(kHeld, 'x'));
  const std::uint64_t bytes = default_disk_bytes(dir.path(), kFree - kHeld);
  CHECK(bytes >= kFree / 4);
  CHECK(bytes < (kFree + kHeld / 2) / 4);
  CHECK(default_disk_bytes(dir.path(), std::nullopt) == std::uint64_t{64} << 30U);
}

TEST_CASE("a default disk size that holds no state is told with its flag, and served without") {
  const cairn::testing::TempDir dir;
  EngineOptions options;
  options.disk_dir = dir.file("cache");
  std::string said;
  struct NoSink {
    ~NoSink() { set_log_sink({}); }
  } const after;
  set_log_sink([&](LogLevel, std::string_view line) { said += line; });
  model::MemoryLayout layout = kLayout;
  layout.state_bytes = std::size_t{1} << 50U;  // beyond any default
  CHECK(open_disk_tier(options, {}, {}, layout, nullptr) == nullptr);
  CHECK_THAT(said, Catch::Contains("serving without a disk cache") &&
                       Catch::Contains("holds no state below") && Catch::Contains("--disk-bytes"));
  CHECK(std::filesystem::exists(options.disk_dir));
  options.disk_dir = dir.file("file");
  options.disk_bytes = 0;
  dir.write("file", "x");
  CHECK_THROWS_WITH(open_disk_tier(options, {}, {}, layout, nullptr),
                    Catch::Contains("the cache directory"));
}
