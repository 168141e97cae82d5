// SPDX-License-Identifier: Apache-2.0
// What the disk tier does when something goes wrong while it runs: torn, flipped, cut, missing and
// strange files, full disks.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "engine/cache/disk_file.hpp"
#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr std::int32_t kAny = 1 << 30;

}  // namespace

TEST_CASE("a flipped bit anywhere in a file is never returned; the file is deleted and counted") {
  for (const bool restart : {false, true}) {
    for (const std::string suffix : {".kv", ".state"}) {
      std::uint64_t size = 1;
      for (std::uint64_t at = 0; at < size; at += at < 120 ? 3 : 89) {
        DiskBench bench;
        const Pair pair;
        auto store = bench.open();
        REQUIRE(pair.deep.put(*store));
        const std::string name = bench.only_file(suffix);
        size = std::filesystem::file_size(bench.path(name));
        if (restart) store.reset();
        flip_bit(bench.path(name), at);
        if (restart) store = bench.open();
        const auto match = store->match("s", pair.tokens, kAny);
        REQUIRE(match);
        const ReadBack back(*store, *match);
        REQUIRE_FALSE(back.status);
        REQUIRE(back.status.error().message.find(name) != std::string::npos);
        REQUIRE_FALSE(store->match("s", pair.tokens, kAny));
        REQUIRE(bench.files().empty());
        const DiskStat stat = store->stat();
        REQUIRE(stat.refused_corrupt + stat.refused_foreign == 1);
        REQUIRE(stat.bytes == 0);
        REQUIRE(pair.deep.put(*store));
      }
    }
  }
}

TEST_CASE("a file that is cut anywhere is refused, at a restart and while it is open") {
  for (const bool restart : {false, true}) {
    for (const std::string suffix : {".kv", ".state"}) {
      std::uint64_t size = 1;
      for (std::uint64_t keep = 0; keep < size; keep += keep < 200 ? 9 : 101) {
        DiskBench bench;
        const Pair pair;
        auto store = bench.open();
        REQUIRE(pair.deep.put(*store));
        const std::string name = bench.only_file(suffix);
        size = std::filesystem::file_size(bench.path(name));
        if (restart) store.reset();
        std::filesystem::resize_file(bench.path(name), keep);
        if (restart) store = bench.open();
        if (const auto match = store->match("s", pair.tokens, kAny)) {
          REQUIRE_FALSE(restart);
          REQUIRE_FALSE(ReadBack(*store, *match).status);
        }
        REQUIRE(store->stat().states == 0);
        REQUIRE(store->stat().refused_corrupt == 1);
        REQUIRE(bench.files().empty());
      }
    }
  }
}

TEST_CASE("a wrong block costs the states behind it and no other") {
  DiskBench bench;
  const Pair pair;
  auto store = bench.open();
  REQUIRE(pair.deep.put(*store));
  REQUIRE(pair.shallow.put(*store));
  const std::uint64_t record = 64 + kDiskLayout.kv_block_bytes + 16;
  flip_bit(bench.path(bench.only_file(".kv")), 96 + 1 + 16 + 4 * record + 100);
  REQUIRE_FALSE(ReadBack(*store, *store->match("s", pair.tokens, kAny)).status);
  const auto match = store->match("s", pair.tokens, kAny);
  REQUIRE(match);
  CHECK(match->position == 48);
  CHECK(ReadBack(*store, *match).equals(pair.shallow));
  CHECK(store->stat().states == 1);
  CHECK(store->stat().blocks == 3);
  CHECK(store->stat().bytes == bench.bytes_on_disk());
}

TEST_CASE("a file in another's place is refused though its checksums are right") {
  std::mt19937 random(1);
  const Sample a("", random_tokens(random, 40));
  const Sample b("", random_tokens(random, 40));
  for (const std::string suffix : {".kv", ".state"}) {
    DiskBench bench;
    auto store = bench.open();
    REQUIRE(a.put(*store));
    const std::string name = bench.only_file(suffix);
    std::filesystem::copy_file(bench.path(name), bench.temp.file("kept"));
    store->forget(store->match("", a.tokens, kAny)->id);
    REQUIRE(b.put(*store));
    std::filesystem::copy_file(bench.temp.file("kept"), bench.path(bench.only_file(suffix)),
                               std::filesystem::copy_options::overwrite_existing);
    CHECK_FALSE(ReadBack(*store, *store->match("", b.tokens, kAny)).status);
    CHECK(store->stat().refused_corrupt == 1);
    CHECK(bench.files().empty());
  }
}

TEST_CASE("a file with right checksums over other tokens than the index's is refused") {
  for (const std::string suffix : {".kv", ".state"}) {
    DiskBench bench;
    const Pair pair;
    auto store = bench.open();
    REQUIRE(pair.deep.put(*store));
    const std::string name = bench.only_file(suffix);
    const int dir = ::open(bench.store_dir().c_str(), O_RDONLY | O_DIRECTORY);
    DiskHeader header;
    {
      const auto reader = DiskReader::open(dir, name, bench.options.fingerprint.hash());
      REQUIRE(reader);
      header = reader->header();
    }
    const std::vector<std::byte> other(header.record_bytes, std::byte{1});
    const std::vector<DiskRecord> records(header.records, DiskRecord{other, {}, {}});
    REQUIRE(write_disk_file(dir, name + ".tmp", header, records, host));
    const DiskRename over{name + ".tmp", name};
    REQUIRE(rename_disk_files(dir, {&over, 1}));
    ::close(dir);
    const ReadBack back(*store, *store->match("s", pair.tokens, kAny));
    REQUIRE_FALSE(back.status);
    CHECK(back.status.error().message.find("other tokens") != std::string::npos);
    CHECK(bench.files().empty());
  }
}

TEST_CASE("missing files are noticed, while the store runs and at a restart") {
  for (const bool restart : {false, true}) {
    for (const std::string suffix : {".kv", ".state"}) {
      DiskBench bench;
      const Pair pair;
      auto store = bench.open();
      REQUIRE(pair.deep.put(*store));
      std::filesystem::remove(bench.path(bench.only_file(suffix)));
      if (restart) {
        store.reset();
        store = bench.open();
        CHECK_FALSE(store->match("s", pair.tokens, kAny));
      } else {
        const ReadBack back(*store, *store->match("s", pair.tokens, kAny));
        REQUIRE_FALSE(back.status);
        CHECK(back.status.error().code == ErrorCode::not_found);
      }
      CHECK(store->stat().refused_missing == 1);
      CHECK(store->stat().states == 0);
      CHECK(bench.files().empty());
    }
  }
}

TEST_CASE("a disk that is full after any number of bytes costs nothing but that state") {
  for (std::int64_t room = 0; room < 7000; room += room < 300 ? 23 : 173) {
    DiskBench bench;
    const Pair pair;
    auto store = bench.open();
    REQUIRE(pair.shallow.put(*store));
    {
      const FailpointScope full("disk.write=fail:" + std::to_string(room));
      const auto put = pair.deep.put(*store);
      if (put) break;  // the larger of the two files fits
      REQUIRE(put.error().code == ErrorCode::unavailable);
      REQUIRE(put.error().message.find("No space left") != std::string::npos);
    }
    REQUIRE_FALSE(store->stat().writable);
    REQUIRE(store->stat().why_not.find("No space left") != std::string::npos);
    require_sane(bench, *store, {pair.deep, pair.shallow});
    REQUIRE(ReadBack(*store, *store->match("s", pair.tokens, kAny)).equals(pair.shallow));
    // Nothing is tried until the time is up.
    REQUIRE_FALSE(pair.deep.put(*store));
    REQUIRE(store->stat().write_failures == 1);
    bench.clock += 31'000;
    REQUIRE(pair.deep.put(*store));
    REQUIRE(store->stat().writable);
    require_sane(bench, *store, {pair.deep, pair.shallow});
  }
}

TEST_CASE("a failure at any step of a write leaves the store as it was") {
  for (const char* fault : {"disk.sync=fail", "disk.sync=fail*1", "disk.rename=fail",
                            "disk.index=fail", "disk.write=fail:100*1"}) {
    DiskBench bench;
    const Pair pair;
    auto store = bench.open();
    REQUIRE(pair.shallow.put(*store));
    const auto before = bench.files();
    {
      const FailpointScope scope(fault);
      REQUIRE_FALSE(pair.deep.put(*store));
      REQUIRE_FALSE(store->save_blob("demand", {}));
    }
    CHECK(bench.files() == before);
    require_sane(bench, *store, {pair.deep, pair.shallow});
    store.reset();
    store = bench.open();
    CHECK(store->stat().swept == 0);
    REQUIRE(pair.deep.put(*store));
    require_sane(bench, *store, {pair.deep, pair.shallow});
  }
}

TEST_CASE("a bit that flips on the way from the disk is noticed") {
  DiskBench bench;
  const Pair pair;
  auto store = bench.open();
  REQUIRE(pair.deep.put(*store));
  const FailpointScope flip("disk.read=fail:77*1");
  CHECK_FALSE(ReadBack(*store, *store->match("s", pair.tokens, kAny)).status);
  CHECK(store->stat().refused_corrupt == 1);
}

TEST_CASE("a limit on file sizes is a full disk like any other") {
  DiskBench bench;
  const Pair pair;
  auto store = bench.open();
  struct rlimit old {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = old;
  small.rlim_cur = 2500;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto refused = pair.deep.put(*store);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("File too large") != std::string::npos);
  CHECK(bench.files().empty());
  bench.clock += 31'000;
  CHECK(pair.deep.put(*store));
}
