// SPDX-License-Identifier: Apache-2.0
// The prefix actor's side of the disk tier without threads: what is sent to whom, and when.
#include <filesystem>
#include <fstream>
#include <numeric>

#include "actors/disk_desk.hpp"
#include "actors/disk_side.hpp"
#include "base/failpoints.hpp"
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
      if (e.item.position != position) continue;
      for (const auto& f : std::filesystem::recursive_directory_iterator(temp.file("cache"))) {
        if (f.path().filename() != engine::state_file_name(e.item.id)) continue;
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
