// SPDX-License-Identifier: Apache-2.0
// What a start finds after processes that died and indexes that were damaged.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr std::int32_t kAny = 1 << 30;

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

}  // namespace

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
