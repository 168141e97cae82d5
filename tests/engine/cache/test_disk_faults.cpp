// SPDX-License-Identifier: Apache-2.0
// What the disk tier does when something goes wrong: torn, flipped, cut, missing and strange files,
// full disks, and processes that die.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "engine/cache/disk_file.hpp"
#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr std::int32_t kAny = 1 << 30;

Tokens prefix(const Tokens& tokens, std::ptrdiff_t n) {
  return {tokens.begin(), tokens.begin() + n};
}

/// Two states of one prompt, the second 32 tokens and a tail behind the first.
struct Pair {
  std::mt19937 random{77};
  Tokens tokens = random_tokens(random, 85);
  Sample shallow{"s", prefix(tokens, 48)};
  Sample deep{"s", tokens};
};

/// A process of its own, which the constructor leaves once the work has called ready().
class Child {
 public:
  explicit Child(const std::function<void(const std::function<void()>&)>& work) {
    int ready[2];
    check(::pipe(ready) == 0, "a pipe");
    pid_ = ::fork();
    check(pid_ >= 0, "a process");
    char byte = 1;
    if (pid_ == 0) {
      work([&] { (void)!::write(ready[1], &byte, 1); });
      ::_exit(0);
    }
    ::close(ready[1]);
    check(::read(ready[0], &byte, 1) == 1, "the child got as far as that");
    ::close(ready[0]);
  }
  /// With SIGKILL, as a machine's memory manager would.
  void kill() const {
    REQUIRE(::kill(pid_, SIGKILL) == 0);
    REQUIRE(::waitpid(pid_, nullptr, 0) == pid_);
  }

 private:
  pid_t pid_ = -1;
};

/// Everything that can still be read is right, and the books agree with the directory.
void require_sane(const DiskBench& bench, DiskStore& store, const std::vector<Sample>& samples) {
  for (const Sample& s : samples) {
    if (const auto match = store.match(s.scope, s.tokens, kAny)) {
      const Sample found(s.scope, prefix(s.tokens, match->position));
      const ReadBack back(store, *match);
      if (back.status) REQUIRE(back.equals(found));
    }
  }
  REQUIRE(store.stat().bytes == bench.bytes_on_disk());
}

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
    const int dir = ::open(bench.options.dir.c_str(), O_RDONLY | O_DIRECTORY);
    DiskHeader header;
    {
      const auto reader = DiskReader::open(dir, name, bench.options.fingerprint.hash());
      REQUIRE(reader);
      header = reader->header();
    }
    const std::vector<std::byte> other(header.record_bytes, std::byte{1});
    const std::vector<DiskRecord> records(header.records, DiskRecord{other, {}, {}});
    REQUIRE(write_disk_file(dir, name + ".tmp", header, records));
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

TEST_CASE("files without a row, temporary files and links are swept at open") {
  DiskBench bench;
  const Pair pair;
  auto store = bench.open();
  REQUIRE(pair.deep.put(*store));
  const auto before = bench.files();
  store.reset();
  std::filesystem::copy_file(bench.path(before.begin()->first), bench.path("00000000000000aa.kv"));
  std::ofstream(bench.path("00000000000000ab.state")) << "nothing";
  std::ofstream(bench.path("00000000000000ac.state.tmp")) << "half of it";
  std::ofstream(bench.path("demand.blob")) << "garbage";
  std::filesystem::create_symlink("/etc/passwd", bench.path("00000000000000ad.kv"));
  store = bench.open();
  CHECK(bench.files() == before);
  CHECK(store->stat().swept == 4);
  CHECK(store->stat().refused_corrupt == 1);
  CHECK(ReadBack(*store, *store->match("s", pair.tokens, kAny)).equals(pair.deep));
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

TEST_CASE("an index of garbage, of another version or cut short costs its content only") {
  for (int damage = 0; damage < 4; ++damage) {
    DiskBench bench;
    const Pair pair;
    auto store = bench.open();
    REQUIRE(pair.deep.put(*store));
    store.reset();
    const std::string index = bench.path("index.sqlite");
    if (damage == 0) std::ofstream(index, std::ios::trunc) << std::string(5000, 'x');
    if (damage == 1) flip_bit(index, 63);  // user_version
    if (damage == 2) std::filesystem::resize_file(index, 4096);
    if (damage == 3) std::filesystem::remove(index);
    store = bench.open();
    CHECK(store->stat().states == 0);
    CHECK(store->stat().swept == 2);
    CHECK(bench.files().empty());
    REQUIRE(pair.deep.put(*store));
    store.reset();
    CHECK(bench.open()->contains("s", pair.tokens));
  }
}

TEST_CASE("bits that flip in the index never give a wrong state") {
  std::uint64_t size = 101;
  int opened_all = 0;
  for (std::uint64_t at = 100; at < size; at += 61) {
    DiskBench bench;
    const Pair pair;
    auto store = bench.open();
    REQUIRE(pair.deep.put(*store));
    REQUIRE(pair.shallow.put(*store));
    store.reset();
    size = std::filesystem::file_size(bench.path("index.sqlite"));
    flip_bit(bench.path("index.sqlite"), at);
    auto opened = DiskStore::open(bench.options);
    if (!opened) continue;
    require_sane(bench, **opened, {pair.deep, pair.shallow});
    opened_all += (*opened)->stat().states == 2 ? 1 : 0;
  }
  CHECK(opened_all > 0);  // most of a page is unused
}

TEST_CASE("a process killed at any point of a write leaves nothing that is wrong") {
  const char* points[] = {"disk.sync=sleep:600000", "disk.rename=sleep:600000",
                          "disk.index=sleep:600000", ""};
  for (int round = 0; round < 24; ++round) {
    const char* point = points[round % 4];
    DiskBench bench;
    std::mt19937 random{static_cast<unsigned>(round)};
    std::vector<Sample> samples;
    const Tokens base = random_tokens(random, 200);
    for (int i = 0; i < 6; ++i) {
      samples.emplace_back("", joined(prefix(base, 30 * i + 10), random_tokens(random, 50)));
    }
    bench.open().reset();
    const auto whole = static_cast<std::size_t>(round % 6);
    const Child child([&](const std::function<void()>& ready) {
      auto store = DiskStore::open(bench.options);
      for (std::size_t i = 0; store && i < samples.size(); ++i) {
        if (i == whole) {
          set_failpoints(point);
          ready();
        }
        (void)samples[i].put(**store);
      }
    });
    // Two files each; one more is the one that is being written.
    const auto begun = [&] { return bench.files().size() > 2 * whole; };
    for (int i = 0; *point != 0 && i < 5000 && !begun(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (*point == 0) std::this_thread::sleep_for(std::chrono::microseconds(40 * round));
    child.kill();

    auto store = bench.open();
    for (std::size_t i = 0; i < whole; ++i) {
      const auto match = store->match("", samples[i].tokens, kAny);
      REQUIRE(match);
      REQUIRE(ReadBack(*store, *match).equals(samples[i]));
    }
    if (*point != 0) REQUIRE(store->stat().swept > 0);
    if (*point != 0) REQUIRE(store->stat().states == whole);
    require_sane(bench, *store, samples);
    REQUIRE(store->stat().refused_corrupt + store->stat().refused_missing == 0);
    for (const Sample& s : samples) REQUIRE(s.put(*store));
    require_sane(bench, *store, samples);
  }
}

TEST_CASE("a process killed while it removes leaves nothing that is wrong") {
  for (int round = 0; round < 10; ++round) {
    DiskBench bench;
    std::mt19937 random(5);
    const Tokens base = random_tokens(random, 200);
    std::vector<Sample> samples;
    for (const std::ptrdiff_t n : {50, 100, 150, 200}) samples.emplace_back("", prefix(base, n));
    {
      auto store = bench.open();
      // The longest first: it brings all blocks, and each removal behind cuts its file.
      for (std::size_t i = samples.size(); i-- > 0;) REQUIRE(samples[i].put(*store));
    }
    const Child child([&](const std::function<void()>& ready) {
      auto store = DiskStore::open(bench.options);
      ready();
      for (std::size_t i = samples.size(); store && i-- > 1;) {
        (*store)->forget((*store)->match("", samples[i].tokens, kAny)->id);
      }
      ::pause();
    });
    std::this_thread::sleep_for(std::chrono::microseconds(150 * round));
    child.kill();
    auto store = bench.open();
    const auto match = store->match("", samples[0].tokens, kAny);
    REQUIRE(match);
    REQUIRE(ReadBack(*store, *match).equals(samples[0]));
    require_sane(bench, *store, samples);
    REQUIRE(store->stat().refused_corrupt + store->stat().refused_missing == 0);
  }
}

TEST_CASE("a cut that a crash left undone is made up for at open") {
  DiskBench bench;
  const Pair pair;
  auto store = bench.open();
  REQUIRE(pair.deep.put(*store));
  REQUIRE(pair.shallow.put(*store));
  const std::string name = bench.only_file(".kv");
  std::filesystem::copy_file(bench.path(name), bench.temp.file("whole"));
  store->forget(store->match("s", pair.tokens, kAny)->id);
  store.reset();
  std::filesystem::copy_file(bench.temp.file("whole"), bench.path(name),
                             std::filesystem::copy_options::overwrite_existing);
  store = bench.open();
  CHECK(store->stat().bytes == bench.bytes_on_disk());
  CHECK(std::filesystem::file_size(bench.path(name)) <
        std::filesystem::file_size(bench.temp.file("whole")));
  CHECK(ReadBack(*store, *store->match("s", pair.tokens, kAny)).equals(pair.shallow));
}
