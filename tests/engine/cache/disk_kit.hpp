// SPDX-License-Identifier: Apache-2.0
// Prompts, states and directories for the tests of the disk tier.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "engine/cache/disk_stage.hpp"
#include "engine/cache/disk_store.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

namespace cairn::testing {

using namespace cairn::engine;
using Tokens = std::vector<std::int32_t>;

inline DiskStage host;  // nothing lies on a device

inline constexpr model::MemoryLayout kDiskLayout{.kv_block_bytes = 512, .state_bytes = 3000};

// Bytes of the files of one store, from the format's description.
inline std::uint64_t segment_bytes(std::uint64_t blocks, std::size_t scope) {
  return 96 + scope + 16 + blocks * (64 + kDiskLayout.kv_block_bytes + 16);
}
inline std::uint64_t state_bytes(bool tail, std::size_t scope) {
  return 96 + scope + 16 + 64 + (tail ? kDiskLayout.kv_block_bytes : 0) + kDiskLayout.state_bytes +
         16;
}

/// Clears the failpoints when it ends, however.
struct FailpointScope {
  explicit FailpointScope(std::string_view table) { set_failpoints(table); }
  ~FailpointScope() { set_failpoints(""); }
};

inline Fingerprint test_fingerprint() {
  Fingerprint f;
  f.weights = 0x1234;
  f.weight_format = "bf16";
  f.kv = "bf16";
  f.isa = "avx512";
  f.device = "cpu";
  f.gemm = "own";
  return f;
}

/// Bytes that follow from a path and nothing else: what exactness promises of KV and states.
inline std::vector<std::byte> bytes_for(std::string_view scope, const Tokens& tokens,
                                        std::size_t size) {
  std::uint64_t seed = hash_bytes(scope);
  for (const std::int32_t t : tokens) seed = seed * 6364136223846793005ULL + std::uint64_t(t) + 1;
  std::mt19937_64 random(seed ^ size);
  std::vector<std::byte> out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 0xFF);
  return out;
}

/// Everything that a state on disk is made of.
struct Sample {
  std::string scope;
  Tokens tokens;
  std::vector<std::byte> state;
  std::vector<std::vector<std::byte>> kv;  // [ceil(n / 16)]

  Sample(std::string scope_in, Tokens tokens_in, model::MemoryLayout layout = kDiskLayout)
      : scope(std::move(scope_in)), tokens(std::move(tokens_in)) {
    state = bytes_for(scope, tokens, layout.state_bytes);
    for (std::size_t end = 16; end < tokens.size() + 16; end += 16) {
      const auto n = static_cast<std::ptrdiff_t>(std::min(end, tokens.size()));
      kv.push_back(
          bytes_for(scope, Tokens(tokens.begin(), tokens.begin() + n), layout.kv_block_bytes));
    }
  }

  Result<DiskPut> put(DiskStore& store, StateKind kind = StateKind::branch, double rate = 0) const {
    std::vector<const std::byte*> blocks;
    for (const auto& b : kv) blocks.push_back(b.data());
    return store.put({scope, tokens, kind, state, blocks, rate});
  }
};

/// Reads a state; `first_block` whole blocks are left out.
struct ReadBack {
  Status status = ok_status();
  std::vector<std::byte> state;
  std::vector<std::vector<std::byte>> kv;

  ReadBack(DiskStore& store, const DiskMatch& match, std::int32_t first_block = 0,
           model::MemoryLayout layout = kDiskLayout)
      : state(layout.state_bytes),
        kv(static_cast<std::size_t>((match.position + 15) / 16 - first_block),
           std::vector<std::byte>(layout.kv_block_bytes)) {
    std::vector<std::byte*> blocks;
    for (auto& b : kv) blocks.push_back(b.data());
    status = store.read(match.id, {state, blocks, first_block});
  }

  bool equals(const Sample& sample, std::size_t first_block = 0) const {
    return status.ok() && state == sample.state && kv.size() + first_block == sample.kv.size() &&
           std::equal(kv.begin(), kv.end(),
                      sample.kv.begin() + static_cast<std::ptrdiff_t>(first_block));
  }
};

inline Tokens random_tokens(std::mt19937& random, std::size_t n, std::int32_t vocabulary = 1000) {
  Tokens out(n);
  for (auto& t : out) t = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary));
  return out;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A store's directory and options.
struct DiskBench {
  // In memory where there is such a place: thousands of syncs to a real disk take minutes.
  TempDir temp{std::filesystem::is_directory("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                         : std::filesystem::temp_directory_path()};
  DiskOptions options;
  std::int64_t clock = 1'000'000;

  DiskBench() {
    options.dir = temp.file("cache");
    options.max_bytes = 1'000'000'000;
    options.fingerprint = test_fingerprint();
    options.layout = kDiskLayout;
    options.clock_ms = [this] { return clock; };
  }

  std::unique_ptr<DiskStore> open() const {
    auto store = DiskStore::open(options);
    if (!store) FAIL(store.error().message);
    return store.take();
  }

  /// Of the store of these options.
  std::string store_dir() const {
    return options.dir + "/" + disk_store_name(options.fingerprint, options.layout);
  }
  std::string path(const std::string& name) const { return store_dir() + "/" + name; }

  /// Files of the store that count (not the index), by name.
  std::map<std::string, std::uint64_t> files() const {
    std::map<std::string, std::uint64_t> out;
    if (!std::filesystem::exists(store_dir())) return out;
    for (const auto& entry : std::filesystem::directory_iterator(store_dir())) {
      const std::string name = entry.path().filename();
      if (name.rfind(kIndexPrefix, 0) != 0) out[name] = entry.file_size();
    }
    return out;
  }
  std::uint64_t bytes_on_disk() const {
    std::uint64_t bytes = 0;
    for (const auto& [name, size] : files()) bytes += size;
    return bytes;
  }
  /// Everything under the directory, locks, indexes and logs included.
  std::uint64_t all_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.dir)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  }
  std::string only_file(const std::string& suffix) const {
    std::string found;
    for (const auto& [name, size] : files()) {
      if (name.size() < suffix.size() || name.substr(name.size() - suffix.size()) != suffix)
        continue;
      check(found.empty(), "there is more than one such file");
      found = name;
    }
    check(!found.empty(), "there is no such file");
    return found;
  }

  static constexpr const char* kIndexPrefix = "index.sqlite";
};

inline void flip_bit(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int c = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(c ^ 4));
}

inline Tokens prefix(const Tokens& tokens, std::ptrdiff_t n) {
  return {tokens.begin(), tokens.begin() + n};
}

/// Two states of one prompt, the second 32 tokens and a tail behind the first.
struct Pair {
  std::mt19937 random{77};
  Tokens tokens = random_tokens(random, 85);
  Sample shallow{"s", prefix(tokens, 48)};
  Sample deep{"s", tokens};
};

/// Everything that can still be read is right, and the books agree with the directory.
inline void require_sane(const DiskBench& bench, DiskStore& store,
                         const std::vector<Sample>& samples) {
  for (const Sample& s : samples) {
    if (const auto match = store.match(s.scope, s.tokens, 1 << 30)) {
      const Sample found(s.scope, prefix(s.tokens, match->position));
      const ReadBack back(store, *match);
      if (back.status) REQUIRE(back.equals(found));
    }
  }
  REQUIRE(store.stat().bytes == bench.bytes_on_disk());
}

}  // namespace cairn::testing
