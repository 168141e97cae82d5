// SPDX-License-Identifier: Apache-2.0
// What leaves the disk, and why: the budget, predicted worth, age.
#include "engine/cache/disk_worth.hpp"
#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr std::int32_t kAny = 1 << 30;

}  // namespace

TEST_CASE("the budget holds, and the least recently used goes first") {
  DiskBench bench;
  std::mt19937 random(7);
  const std::uint64_t each = segment_bytes(4, 0) + state_bytes(false, 0);
  bench.options.max_bytes = kDiskIndexReserve + 5 * each + 10;
  auto store = bench.open();
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) samples.emplace_back("", random_tokens(random, 64));
  for (std::size_t i = 0; i < 5; ++i) {
    ++bench.clock;
    REQUIRE(samples[i].put(*store));
  }
  ++bench.clock;
  REQUIRE(ReadBack(*store, *store->match("", samples[0].tokens, kAny)).equals(samples[0]));
  for (std::size_t i = 5; i < 8; ++i) {
    ++bench.clock;
    REQUIRE(samples[i].put(*store));
    CHECK(bench.bytes_on_disk() <= bench.options.max_bytes);
  }
  std::string kept;
  for (const Sample& s : samples) kept += store->contains("", s.tokens) ? '1' : '0';
  CHECK(kept == "10001111");
  CHECK(store->stat().evicted == 3);
  // The order outlives a restart, reads included.
  ++bench.clock;
  ReadBack(*store, *store->match("", samples[4].tokens, kAny));
  store.reset();
  bench.options.max_bytes = kDiskIndexReserve + 2 * each;
  store = bench.open();
  kept.clear();
  for (const Sample& s : samples) kept += store->contains("", s.tokens) ? '1' : '0';
  CHECK(kept == "00001001");
}

TEST_CASE("making room never takes the blocks that the new state shares") {
  DiskBench bench;
  std::mt19937 random(9);
  const Tokens base = random_tokens(random, 160);
  // Room for the first state, or for its blocks with two more and the second state.
  const std::uint64_t room = segment_bytes(10, 0) + segment_bytes(2, 0) + state_bytes(false, 0);
  bench.options.max_bytes = kDiskIndexReserve + room;
  auto store = bench.open();
  REQUIRE(Sample("", base).put(*store));
  const Sample longer("", joined(base, random_tokens(random, 32)));
  REQUIRE(longer.put(*store));
  CHECK(store->stat().states == 1);
  CHECK(store->stat().bytes == room);
  CHECK(ReadBack(*store, *store->match("", longer.tokens, kAny)).equals(longer));
  // What cannot fit at all changes nothing.
  REQUIRE_FALSE(Sample("", joined(base, random_tokens(random, 64))).put(*store));
  CHECK(store->contains("", longer.tokens));
  CHECK(store->stat().bytes == bench.bytes_on_disk());
}

TEST_CASE("what was not used for the maximum age is gone, also when nobody was there meanwhile") {
  DiskBench bench;
  std::mt19937 random(10);
  bench.options.max_age = std::chrono::hours(1);
  const Sample old("", random_tokens(random, 40));
  const Sample used("", random_tokens(random, 40));
  auto store = bench.open();
  REQUIRE(old.put(*store));
  REQUIRE(used.put(*store));
  bench.clock += 3'000'000;
  ReadBack(*store, *store->match("", used.tokens, kAny));
  bench.clock += 1'000'000;
  store->expire();
  CHECK_FALSE(store->contains("", old.tokens));
  CHECK(store->contains("", used.tokens));
  CHECK(store->stat().expired == 1);
  store.reset();
  bench.clock += 4'000'000;
  store = bench.open();
  CHECK(store->stat().states == 0);
  CHECK(bench.files().empty());
}

TEST_CASE("a full disk keeps what is predicted to be hit over what is newer") {
  DiskBench bench;
  std::mt19937 random(8);
  bench.options.max_bytes = kDiskIndexReserve + 3 * (segment_bytes(2, 0) + state_bytes(false, 0));
  auto store = bench.open();
  std::vector<Sample> samples;
  for (int i = 0; i < 5; ++i) samples.emplace_back("", random_tokens(random, 32));
  const auto kept = [&] {
    std::string out;
    for (const Sample& s : samples) out += store->contains("", s.tokens) ? '1' : '0';
    return out;
  };
  const double rates[] = {0.5, 0.01, 0.2, 0.1, 0.001};
  for (std::size_t i = 0; i < 3; ++i) {
    ++bench.clock;
    REQUIRE(samples[i].put(*store, StateKind::branch, rates[i]));
  }
  ++bench.clock;
  REQUIRE(samples[3].put(*store, StateKind::branch, rates[3]));
  CHECK(kept() == "10110");
  // Nothing there is worth less than this one.
  const auto refused = samples[4].put(*store, StateKind::branch, rates[4]);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::no_memory);
  CHECK(store->stat().writable);
  // Predictions outlive a restart, and newer ones replace them.
  store.reset();
  store = bench.open();
  const auto id = [&](const Sample& s) { return store->match("", s.tokens, kAny)->id; };
  store->forecast({10, {.a = 0}, {{id(samples[0]), 0.0001}, {999, 1.0}}});
  REQUIRE(samples[4].put(*store, StateKind::branch, rates[4]));
  CHECK(kept() == "00111");
}

TEST_CASE("a prediction loses weight with the requests that it did not foresee") {
  DiskBench bench;
  std::mt19937 random(9);
  bench.options.max_bytes = kDiskIndexReserve + 2 * (segment_bytes(2, 0) + state_bytes(false, 0));
  auto store = bench.open();
  const Sample old("", random_tokens(random, 32));
  const Sample other("", random_tokens(random, 32));
  const Sample late("", random_tokens(random, 32));
  REQUIRE(old.put(*store, StateKind::branch, 0.5));
  store->forecast({640, {.a = 0}, {}});
  REQUIRE(other.put(*store, StateKind::branch, 0.1));
  REQUIRE(late.put(*store, StateKind::branch, 0.1));
  CHECK_FALSE(store->contains("", old.tokens));
  CHECK(aged_rate(0.5, 640) < 0.1);
  CHECK(aged_rate(0.5, 0) == 0.5);
}

TEST_CASE("of one path's states the one whose requests another serves nearly as well goes") {
  DiskBench bench;
  std::mt19937 random(10);
  const Tokens base = random_tokens(random, 480);
  const auto at = [&](std::ptrdiff_t n) { return Sample("", prefix(base, n)); };
  // Four states and the blocks of the deepest; a fifth does not fit.
  bench.options.max_bytes = kDiskIndexReserve + segment_bytes(30, 0) + 4 * state_bytes(false, 0);
  auto store = bench.open();
  // As many requests end at each of them: 480 serves 1, 464 serves 1, 240 serves 1.
  REQUIRE(at(480).put(*store, StateKind::branch, 0.1));
  REQUIRE(at(464).put(*store, StateKind::branch, 0.2));
  REQUIRE(at(240).put(*store, StateKind::branch, 0.3));
  REQUIRE(at(160).put(*store, StateKind::branch, 0.4));
  REQUIRE(at(80).put(*store, StateKind::branch, 0.5));
  // 480 saves 16 tokens over 464, everything else at least 80.
  CHECK_FALSE(store->contains("", at(480).tokens));
  CHECK(store->contains("", at(464).tokens));
  // With a state at 32 below it, 80 saves 48 tokens, and 160 and 240 save 80 each.
  REQUIRE(at(32).put(*store, StateKind::branch, 9.0));
  CHECK_FALSE(store->contains("", at(80).tokens));
  CHECK(store->stat().states == 4);
}

TEST_CASE("the budget holds for everything under the directory, index and log included") {
  DiskBench bench;
  bench.options.layout.state_bytes = 20'000;
  bench.options.max_bytes = 3 << 20U;
  std::mt19937 random(14);
  auto store = bench.open();
  std::uint64_t most = 0, most_log = 0;
  for (int i = 0; i < 400; ++i) {
    const Sample sample("", random_tokens(random, 16 + random() % 3000), bench.options.layout);
    (void)sample.put(*store, StateKind::branch, 0.1 + 1e-3 * i);
    if (i % 3 == 0) store->forecast({1, {.a = 0}, {{random() % 100, 0.2}}});
    if (i % 50 == 0) store->flush();
    most = std::max(most, bench.all_bytes());
    most_log = std::max(most_log, std::filesystem::file_size(bench.path("index.sqlite-wal")));
    const DiskStat stat = store->stat();
    REQUIRE(most <= bench.options.max_bytes);
    // All but the lock is accounted.
    REQUIRE(stat.bytes + stat.index_bytes + 32 > bench.all_bytes());
  }
  CHECK(store->stat().evicted > 50);
  CHECK(most > bench.options.max_bytes / 2);
  CHECK(most_log < (256U << 10U) + (64U << 10U));
}

TEST_CASE("two fingerprints share one budget, and the other's oldest states go first") {
  DiskBench bench;
  std::mt19937 random(15);
  bench.options.layout.state_bytes = 100'000;
  bench.options.max_bytes = kDiskIndexReserve + 2'000'000;
  DiskBench other;
  other.options = bench.options;
  other.options.fingerprint.isa = "avx2";
  const auto sample = [&] { return Sample("", random_tokens(random, 64), bench.options.layout); };
  std::vector<Sample> old;
  {
    auto store = bench.open();
    for (int i = 0; i < 12; ++i) {
      ++bench.clock;
      old.push_back(sample());
      REQUIRE(old.back().put(*store));
    }
  }
  auto store = other.open();
  std::vector<Sample> fresh;
  for (int i = 0; i < 12; ++i) {
    fresh.push_back(sample());
    REQUIRE(fresh.back().put(*store));
    REQUIRE(bench.all_bytes() <= bench.options.max_bytes);
  }
  for (const Sample& s : fresh) CHECK(store->contains("", s.tokens));
  store.reset();
  store = bench.open();
  std::string kept;
  for (const Sample& s : old) kept += store->contains("", s.tokens) ? '1' : '0';
  CHECK(kept.find('1') != std::string::npos);
  CHECK(kept.find("10") == std::string::npos);  // the oldest are those that went
  CHECK(kept.front() == '0');
  CHECK(ReadBack(*store, *store->match("", old.back().tokens, kAny), 0, bench.options.layout)
            .equals(old.back()));
  // One that needs it all takes it all, directory and index included.
  store.reset();
  store = other.open();
  for (int i = 0; i < 30; ++i) REQUIRE(sample().put(*store));
  CHECK_FALSE(std::filesystem::exists(bench.store_dir()));
  CHECK(store->stat().other_bytes == 0);
}

TEST_CASE("age and purge reach the files of other fingerprints, too") {
  std::mt19937 random(16);
  for (const bool purge : {false, true}) {
    DiskBench bench;
    REQUIRE(Sample("", random_tokens(random, 40)).put(*bench.open()));
    DiskBench other;
    other.options = bench.options;
    other.options.fingerprint.isa = "avx2";
    other.options.max_age = std::chrono::hours(10);
    auto store = other.open();
    CHECK(store->stat().other_bytes > 0);
    if (purge) {
      REQUIRE(store->purge());
    } else {
      bench.clock += 11 * 3'600'000;
      store->expire();
    }
    CHECK(store->stat().other_bytes == 0);
    CHECK_FALSE(std::filesystem::exists(bench.store_dir()));
  }
}

TEST_CASE("a store that nobody can read counts, and goes when its room is needed") {
  DiskBench bench;
  std::mt19937 random(17);
  REQUIRE(Sample("", random_tokens(random, 40)).put(*bench.open()));
  std::ofstream(bench.path("index.sqlite"), std::ios::trunc) << std::string(50'000, 'x');
  DiskBench other;
  other.options = bench.options;
  other.options.fingerprint.isa = "avx2";
  other.options.max_bytes = kDiskIndexReserve + 60'000;
  auto store = other.open();
  CHECK(store->stat().other_bytes > 50'000);
  for (int i = 0; i < 5; ++i) REQUIRE(Sample("", random_tokens(random, 40)).put(*store));
  CHECK_FALSE(std::filesystem::exists(bench.store_dir()));
}
