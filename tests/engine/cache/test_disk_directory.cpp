// SPDX-License-Identifier: Apache-2.0
// Whose directory it is, who may look into it, and under which fingerprint.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.hpp"
#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

int mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return static_cast<int>(info.st_mode & 07777);
}

/// What was logged while it lives.
struct LogScope {
  std::string text;
  LogScope() {
    set_log_sink([this](LogLevel, std::string_view line) { text += std::string(line) + "\n"; });
  }
  ~LogScope() { set_log_sink({}); }
};

Sample some_state() {
  std::mt19937 random(3);
  return {"", random_tokens(random, 50)};
}

}  // namespace

TEST_CASE("directory and files are for their user alone, the index's log included") {
  DiskBench bench;
  bench.options.dir = bench.temp.file("deep/down/cache");
  auto store = bench.open();
  REQUIRE(some_state().put(*store));
  REQUIRE(store->save_blob("demand", {}));
  CHECK(mode_of(bench.options.dir) == 0700);
  CHECK(mode_of(bench.store_dir()) == 0700);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bench.options.dir)) {
    if (entry.is_directory()) continue;
    INFO(entry.path());
    CHECK(mode_of(entry.path()) == 0600);
    ++files;
  }
  CHECK(files == 6);  // lock, index and its log, segment, state, blob
}

TEST_CASE("a directory that is open to others is closed, with a word in the log") {
  DiskBench bench;
  std::filesystem::create_directory(bench.options.dir);
  REQUIRE(::chmod(bench.options.dir.c_str(), 0755) == 0);
  const LogScope log;
  bench.open();
  CHECK(mode_of(bench.options.dir) == 0700);
  CHECK(log.text.find("was open to other users") != std::string::npos);
}

TEST_CASE("a link, and a directory with something else in it, are refused and left alone") {
  DiskBench bench;
  const std::string real = bench.temp.file("real");
  std::filesystem::create_directory(real);
  std::filesystem::create_symlink(real, bench.options.dir);
  for (const std::string slash : {"", "/", "//"}) {
    DiskOptions options = bench.options;
    options.dir += slash;
    const auto linked = DiskStore::open(options);
    REQUIRE_FALSE(linked);
    CHECK(linked.error().code == ErrorCode::bad_request);
    CHECK(linked.error().message.find("symbolic link") != std::string::npos);
  }
  CHECK(std::filesystem::is_empty(real));

  DiskOptions options = bench.options;
  options.dir = real;
  REQUIRE(::chmod(real.c_str(), 0755) == 0);
  std::ofstream(real + "/letter.txt") << "dear";
  const auto strange = DiskStore::open(options);
  REQUIRE_FALSE(strange);
  CHECK(strange.error().message.find("letter.txt") != std::string::npos);
  CHECK(mode_of(real) == 0755);
  CHECK_FALSE(purge_directory(real));
  CHECK(read_file(real + "/letter.txt") == "dear");
}

TEST_CASE("a directory of another user is refused") {
  if (::geteuid() != 0) return;  // only root can make one
  DiskBench bench;
  std::filesystem::create_directory(bench.options.dir);
  REQUIRE(::chown(bench.options.dir.c_str(), 12345, 12345) == 0);
  const auto opened = DiskStore::open(bench.options);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("belongs to user 12345") != std::string::npos);
}

TEST_CASE("a directory that cannot be made or written is an error, not an exception") {
  DiskBench bench;
  std::ofstream(bench.temp.file("file")) << "x";
  bench.options.dir = bench.temp.file("file") + "/cache";
  const auto opened = DiskStore::open(bench.options);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::bad_request);
  CHECK(scan_directory(bench.temp.file("nowhere")).error().code == ErrorCode::not_found);
}

TEST_CASE("a directory that is there but may not be written now is told apart from a useless one") {
  DiskBench bench;
  bench.open();
  const FailpointScope read_only("disk.lock=fail");
  const auto opened = DiskStore::open(bench.options);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::unavailable);
  for (const char* useless : {"/proc", "/proc/cairn", "/dev/null", "/proc/self/mem/cache"}) {
    bench.options.dir = useless;
    const auto refused = DiskStore::open(bench.options);
    REQUIRE_FALSE(refused);
    INFO(refused.error().message);
    CHECK(refused.error().code == ErrorCode::bad_request);
    CHECK(refused.error().message.find(useless) != std::string::npos);
  }
}

TEST_CASE("a second process is refused by one sentence with directory and holder") {
  DiskBench bench;
  auto store = bench.open();
  const pid_t holder = ::getpid();
  const auto refused = [&](const Error& e) {
    return e.code == ErrorCode::bad_request &&
           e.message == "the cache directory " + bench.options.dir + " is in use by process " +
                            std::to_string(holder);
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto second = DiskStore::open(bench.options);
    const auto purged = purge_directory(bench.options.dir);
    const auto scanned = scan_directory(bench.options.dir);
    ::_exit(!second && refused(second.error()) && !purged && refused(purged.error()) && !scanned &&
                    refused(scanned.error())
                ? 0
                : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_FALSE(DiskStore::open(bench.options));  // nor twice in one process
  store.reset();
  CHECK(DiskStore::open(bench.options));
}

TEST_CASE("another fingerprint starts empty, says what differs and leaves the first one alone") {
  DiskBench bench;
  const Sample sample = some_state();
  REQUIRE(sample.put(*bench.open()));
  DiskBench other;
  other.options.dir = bench.options.dir;
  other.options.fingerprint.isa = "avx2";
  const LogScope log;
  auto store = other.open();
  CHECK(log.text.find("isa was avx512, is avx2 here") != std::string::npos);
  CHECK(log.text.find("weights") == std::string::npos);
  CHECK(store->stat().states == 0);
  CHECK(other.files().empty());
  REQUIRE(sample.put(*store));
  CHECK(store->stat().other_bytes > bench.bytes_on_disk());  // its index, too
  store.reset();
  CHECK(other.open()->contains("", sample.tokens));
  store = bench.open();
  REQUIRE(store->contains("", sample.tokens));
  CHECK(ReadBack(*store, *store->match("", sample.tokens, 1000)).equals(sample));
  store.reset();

  DiskOptions larger = other.options;
  larger.layout.state_bytes += 4;
  CHECK_FALSE((*DiskStore::open(larger))->contains("", sample.tokens));
  CHECK(log.text.find("state_bytes was 3000, is 3004 here") != std::string::npos);
}

TEST_CASE("a single file of another fingerprint is refused though its index is not") {
  DiskBench bench;
  const Sample sample = some_state();
  DiskBench other;
  other.options.fingerprint.kv = "f32";
  auto store = bench.open();
  REQUIRE(sample.put(*store));
  REQUIRE(sample.put(*other.open()));
  std::filesystem::copy_file(other.path(other.only_file(".state")),
                             bench.path(bench.only_file(".state")),
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_FALSE(ReadBack(*store, *store->match("", sample.tokens, 1000)).status);
  CHECK(store->stat().refused_foreign == 1);
}

TEST_CASE("every part of the fingerprint changes its hash, and only parts do") {
  const Fingerprint base = test_fingerprint();
  std::set<std::string> texts{base.text()};
  std::set<FingerprintHash> hashes{base.hash()};
  const auto changed = [&](auto change) {
    Fingerprint f = base;
    change(f);
    texts.insert(f.text());
    hashes.insert(f.hash());
    CHECK(fingerprint_difference(base.text(), f.text()).find(" was ") != std::string::npos);
  };
  changed([](Fingerprint& f) { ++f.weights; });
  changed([](Fingerprint& f) { ++f.config; });
  changed([](Fingerprint& f) { ++f.tokenizer; });
  changed([](Fingerprint& f) { f.weight_format = "int8/128"; });
  changed([](Fingerprint& f) { f.kv = "f32"; });
  changed([](Fingerprint& f) { f.activations = "fp32"; });
  changed([](Fingerprint& f) { f.isa = "avx2\nkv=bf16"; });
  changed([](Fingerprint& f) { f.device = "sm_90"; });
  changed([](Fingerprint& f) { f.gemm = "other"; });
  changed([](Fingerprint& f) { ++f.numerics; });
  CHECK(texts.size() == 11);
  CHECK(hashes.size() == 11);
  CHECK(base.hash() == test_fingerprint().hash());
  CHECK(fingerprint_difference(base.text(), base.text()).empty());
}

TEST_CASE("a directory can be looked at and emptied while nobody runs") {
  DiskBench bench;
  const Sample sample = some_state();
  {
    auto store = bench.open();
    REQUIRE(sample.put(*store));
    bench.clock += 500;
    REQUIRE(Sample("", joined(sample.tokens, {1, 2, 3})).put(*store));
  }
  const auto before = bench.files();
  DiskBench other;
  other.options.dir = bench.options.dir;
  other.options.fingerprint.isa = "avx2";
  REQUIRE(sample.put(*other.open()));
  const auto scans = scan_directory(bench.options.dir);
  REQUIRE(scans);
  REQUIRE(scans->size() == 2);
  std::uint64_t all = 0;
  for (const DiskScan& scan : *scans) {
    all += scan.bytes + scan.index_bytes;
    CHECK(scan.index_bytes > 0);
    CHECK(scan.problem.empty());
    if (scan.fingerprint.find("isa=avx512") == std::string::npos) continue;
    CHECK(scan.states == 2);
    CHECK(scan.bytes == bench.bytes_on_disk());
    CHECK(scan.newest_use_ms - scan.oldest_use_ms == 500);
  }
  CHECK(bench.files() == before);
  const auto purged = purge_directory(bench.options.dir);
  REQUIRE(purged);
  CHECK(*purged == all);
  CHECK(bench.files().empty());
  CHECK(other.files().empty());
  CHECK(scan_directory(bench.options.dir)->empty());
}
