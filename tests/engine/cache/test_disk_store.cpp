// SPDX-License-Identifier: Apache-2.0
// What the disk tier promises when nothing goes wrong: bits, sharing, budget, restart.
#include <atomic>
#include <thread>

#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr std::int32_t kAny = 1 << 30;

}  // namespace

TEST_CASE("a state is read back bit for bit, in the same process and after a restart") {
  DiskBench bench;
  std::mt19937 random(1);
  for (const std::size_t n : {5U, 16U, 17U, 160U, 1000U, 9001U}) {
    const Sample sample("tenant", random_tokens(random, n));
    auto store = bench.open();
    REQUIRE(sample.put(*store));
    auto match = store->match("tenant", sample.tokens, kAny);
    REQUIRE(match);
    CHECK(match->position == std::int32_t(n));
    CHECK(ReadBack(*store, *match).equals(sample));

    store.reset();
    store = bench.open();
    match = store->match("tenant", joined(sample.tokens, {7, 7, 7}), kAny);
    REQUIRE(match);
    CHECK(match->position == std::int32_t(n));
    CHECK(match->kind == StateKind::branch);
    CHECK(ReadBack(*store, *match).equals(sample));
    CHECK(store->stat().refused_corrupt + store->stat().refused_missing == 0);
  }
}

TEST_CASE("blocks that the caller has already are not read") {
  DiskBench bench;
  std::mt19937 random(2);
  const Tokens base = random_tokens(random, 100);
  const Sample first("", base);
  const Sample second("", joined(base, random_tokens(random, 133)));
  auto store = bench.open();
  REQUIRE(first.put(*store));
  REQUIRE(second.put(*store));
  const auto match = store->match("", second.tokens, kAny);
  REQUIRE(match);
  for (std::int32_t skip = 0; skip <= 14; ++skip) {
    CHECK(ReadBack(*store, *match, skip).equals(second, std::size_t(skip)));
  }
}

TEST_CASE("states of one prompt share its blocks on disk, and other scopes never do") {
  DiskBench bench;
  std::mt19937 random(3);
  const Tokens base = random_tokens(random, 320);
  auto store = bench.open();
  REQUIRE(Sample("", base).put(*store));
  CHECK(store->stat().bytes == segment_bytes(20, 0) + state_bytes(false, 0));
  // Half way along what is there: no new block.
  const auto half = Sample("", Tokens(base.begin(), base.begin() + 165)).put(*store);
  REQUIRE(half);
  CHECK(half->bytes == state_bytes(true, 0));
  // Leaves the path in block 10: only its own blocks are new.
  const auto fork =
      Sample("", joined(Tokens(base.begin(), base.begin() + 165), random_tokens(random, 27)))
          .put(*store);
  REQUIRE(fork);
  CHECK(fork->bytes == segment_bytes(2, 0) + state_bytes(false, 0));
  const auto other = Sample("key", base).put(*store);
  REQUIRE(other);
  CHECK(other->bytes == segment_bytes(20, 3) + state_bytes(false, 3));
  CHECK(store->stat().bytes == bench.bytes_on_disk());
  CHECK_FALSE(store->match("other", base, kAny));
}

TEST_CASE("a state that is there already is not written again") {
  DiskBench bench;
  std::mt19937 random(4);
  const Sample sample("", random_tokens(random, 50));
  auto store = bench.open();
  const auto first = sample.put(*store);
  const auto again = sample.put(*store);
  REQUIRE(first);
  REQUIRE(again);
  CHECK_FALSE(first->existed);
  CHECK(again->existed);
  CHECK(again->id == first->id);
  CHECK(again->bytes == 0);
  CHECK(store->stat().states == 1);
  CHECK(store->contains("", sample.tokens));
  CHECK_FALSE(store->contains("", joined(sample.tokens, {1})));
}

TEST_CASE("a lookup goes no further than it is allowed") {
  DiskBench bench;
  std::mt19937 random(5);
  const Tokens base = random_tokens(random, 200);
  auto store = bench.open();
  for (const std::ptrdiff_t n : {7, 48, 50, 200}) {
    REQUIRE(Sample("", Tokens(base.begin(), base.begin() + n)).put(*store));
  }
  const auto depth = [&](std::int32_t limit) {
    const auto match = store->match("", base, limit);
    return match ? match->position : 0;
  };
  CHECK(depth(kAny) == 200);
  CHECK(depth(200) == 200);
  CHECK(depth(199) == 50);
  CHECK(depth(49) == 48);
  CHECK(depth(47) == 7);
  CHECK(depth(6) == 0);
  CHECK(depth(-1) == 0);
}

TEST_CASE("what only a forgotten state needed is freed, and the rest still reads") {
  DiskBench bench;
  std::mt19937 random(6);
  const Tokens base = random_tokens(random, 320);
  const Sample deep("", base);
  const Sample shallow("", Tokens(base.begin(), base.begin() + 100));
  auto store = bench.open();
  const auto id = deep.put(*store);
  REQUIRE(id);
  REQUIRE(shallow.put(*store));
  store->forget(id->id);
  CHECK(bench.bytes_on_disk() == segment_bytes(6, 0) + state_bytes(true, 0));
  CHECK(store->stat().bytes == bench.bytes_on_disk());
  for (int restart = 0; restart < 2; ++restart) {
    const auto match = store->match("", base, kAny);
    REQUIRE(match);
    CHECK(match->position == 100);
    CHECK(ReadBack(*store, *match).equals(shallow));
    store.reset();
    store = bench.open();
  }
  // The freed blocks can be written anew behind the cut.
  REQUIRE(deep.put(*store));
  CHECK(ReadBack(*store, *store->match("", base, kAny)).equals(deep));
  store->forget_scope("");
  CHECK(bench.files().empty());
  CHECK(store->stat().bytes == 0);
}

TEST_CASE("a restart remembers every state with its tokens, kind and last use") {
  DiskBench bench;
  std::mt19937 random(11);
  std::map<Tokens, std::pair<StateKind, std::int64_t>> expected;
  auto store = bench.open();
  const Tokens base = random_tokens(random, 100);
  for (int i = 0; i < kStateKinds; ++i) {
    bench.clock += 10;
    const Sample sample("s", joined(base, random_tokens(random, std::size_t(10 * i + 1))));
    REQUIRE(sample.put(*store, StateKind(i)));
    expected[sample.tokens] = {StateKind(i), bench.clock};
  }
  store.reset();
  store = bench.open();
  const auto entries = store->entries();
  REQUIRE(entries.size() == expected.size());
  for (const DiskEntry& e : entries) {
    CHECK(e.scope == "s");
    REQUIRE(expected.count(e.tokens) == 1);
    CHECK(e.position == std::int32_t(e.tokens.size()));
    CHECK(std::make_pair(e.kind, e.last_use_ms) == expected[e.tokens]);
  }
}

TEST_CASE("purge leaves no file and no token in the directory, and the store goes on") {
  DiskBench bench;
  const Tokens marked(64, 0x5EC2E7);
  auto store = bench.open();
  REQUIRE(Sample("", marked).put(*store));
  const std::vector<std::byte> table(100, std::byte{9});
  REQUIRE(store->save_blob("demand", table));
  REQUIRE(store->purge());
  CHECK(bench.files().empty());
  const std::string needle("\xE7\xC2\x5E\x00\xE7\xC2\x5E\x00", 8);
  for (const auto& entry : std::filesystem::directory_iterator(bench.store_dir())) {
    CHECK(read_file(entry.path()).find(needle) == std::string::npos);
  }
  CHECK(store->stat().states == 0);
  CHECK(store->stat().bytes == 0);
  REQUIRE(Sample("", marked).put(*store));
  store.reset();
  CHECK(bench.open()->contains("", marked));
}

TEST_CASE("forgetting a scope leaves none of its tokens in the index either") {
  DiskBench bench;
  auto store = bench.open();
  REQUIRE(Sample("a", Tokens(70, 0x5EC2E7)).put(*store));
  REQUIRE(Sample("b", Tokens(70, 0x11)).put(*store));
  store->forget_scope("a");
  const std::string needle("\xE7\xC2\x5E\x00\xE7\xC2\x5E\x00", 8);
  for (const auto& entry : std::filesystem::directory_iterator(bench.store_dir())) {
    CHECK(read_file(entry.path()).find(needle) == std::string::npos);
  }
  CHECK(store->stat().states == 1);
}

TEST_CASE("a blob is replaced whole, outlives a restart and counts") {
  DiskBench bench;
  auto store = bench.open();
  CHECK(store->load_blob("demand").error().code == ErrorCode::not_found);
  const std::vector<std::byte> one(1000, std::byte{1});
  const std::vector<std::byte> two(77, std::byte{2});
  REQUIRE(store->save_blob("demand", one));
  REQUIRE(store->save_blob("demand", two));
  REQUIRE(store->save_blob("empty", {}));
  CHECK(store->stat().bytes == bench.bytes_on_disk());
  store.reset();
  store = bench.open();
  CHECK(*store->load_blob("demand") == two);
  CHECK(store->load_blob("empty")->empty());
  CHECK(store->stat().bytes == bench.bytes_on_disk());
}

TEST_CASE("other threads may look states up while they come and go") {
  DiskBench bench;
  std::mt19937 random(13);
  const Tokens base = random_tokens(random, 320);
  auto store = bench.open();
  const Sample always("", Tokens(base.begin(), base.begin() + 50));
  REQUIRE(always.put(*store));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!stop) {
      const auto match = store->match("", base, kAny);
      if (!match || match->position < 50) ++wrong;
      if (!store->contains("", always.tokens)) ++wrong;
      if (store->stat().states < 1) ++wrong;
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto n = std::ptrdiff_t(51 + random() % 270);
    const auto put = Sample("", Tokens(base.begin(), base.begin() + n)).put(*store);
    REQUIRE(put);
    ReadBack(*store, *store->match("", base, kAny));
    store->forget(put->id);
  }
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("random puts, reads and removals agree with a plain list, restarts and all") {
  DiskBench bench;
  std::mt19937 random(12);
  std::set<std::pair<std::string, Tokens>> model;
  auto store = bench.open();
  // Few distinct tokens, so that paths overlap; many lengths, so that they end anywhere.
  const auto prompt = [&] {
    Tokens out;
    const std::size_t runs = 1 + random() % 4;
    for (std::size_t r = 0; r < runs; ++r) {
      out = joined(out, Tokens(1 + random() % 40, std::int32_t(random() % 2)));
    }
    return out;
  };
  for (int step = 0; step < 1500; ++step) {
    const std::string scope = random() % 4 == 0 ? "b" : "";
    const Tokens tokens = prompt();
    const auto action = random() % 10;
    if (action < 4) {
      REQUIRE(Sample(scope, tokens).put(*store));
      model.emplace(scope, tokens);
    } else if (action < 6 && !model.empty()) {
      auto it = model.begin();
      std::advance(it, std::ptrdiff_t(random() % model.size()));
      const auto match = store->match(it->first, it->second, kAny);
      REQUIRE(match);
      store->forget(match->id);
      model.erase(it);
    } else if (action == 6 && step % 20 == 0) {
      store.reset();
      store = bench.open();
    } else {
      const auto limit = std::int32_t(random() % 100);
      std::int32_t deepest = 0;
      for (const auto& [s, t] : model) {
        const auto n = std::int32_t(t.size());
        if (s == scope && n <= limit && t.size() <= tokens.size() &&
            std::equal(t.begin(), t.end(), tokens.begin())) {
          deepest = std::max(deepest, n);
        }
      }
      const auto match = store->match(scope, tokens, limit);
      REQUIRE((match ? match->position : 0) == deepest);
      if (match) {
        const Sample expected(scope, Tokens(tokens.begin(), tokens.begin() + deepest));
        REQUIRE(ReadBack(*store, *match).equals(expected));
      }
    }
    if (step % 50 == 0) REQUIRE(store->stat().bytes == bench.bytes_on_disk());
  }
  REQUIRE(store->stat().states == model.size());
  CHECK(store->stat().states_by_kind[static_cast<int>(StateKind::branch)] == model.size());
  const DiskStat stat = store->stat();
  CHECK(stat.refused_corrupt + stat.refused_missing + stat.refused_foreign + stat.swept == 0);
  CHECK(stat.bytes == bench.bytes_on_disk());
}
