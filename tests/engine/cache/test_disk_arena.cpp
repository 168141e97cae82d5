// SPDX-License-Identifier: Apache-2.0
// States and blocks that lie on a device, to disk and back.
#include "engine/cache/pools.hpp"
#include "tests/engine/cache/disk_kit.hpp"
#include "tests/support/host_arena.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr std::int32_t kAny = 1 << 30;

struct Device {
  std::shared_ptr<FarArena> arena = std::make_shared<FarArena>(1 << 20);
  MemoryPools pools{kDiskLayout, arena->size(), arena};
  DiskBench bench;
  std::unique_ptr<DiskStore> store;

  Device() {
    bench.options.arena = arena;
    store = bench.open();
  }

  /// Blocks and a state of the arena; the handles end with the object.
  struct Slots {
    StateRef state;
    std::vector<KvBlockRef> blocks;
  };
  Slots slots(std::int32_t blocks) {
    Reservation r = pools.reserve(blocks, 1).value();
    Slots s;
    s.state = r.take_state();
    while (r.blocks_left() > 0) s.blocks.push_back(r.take_block());
    return s;
  }

  // The tail's block is the host's, as a private copy of it is.
  Result<DiskPut> put(const Sample& sample) {
    const Slots s = slots(static_cast<std::int32_t>(sample.kv.size()));
    arena->write(sample.state, s.state.data());
    std::vector<const std::byte*> blocks;
    for (std::size_t b = 0; b < sample.kv.size(); ++b) {
      arena->write(sample.kv[b], s.blocks[b].data());
      blocks.push_back(s.blocks[b].data());
    }
    if (sample.tokens.size() % 16 != 0) blocks.back() = sample.kv.back().data();
    return store->put({sample.scope,
                       sample.tokens,
                       StateKind::branch,
                       {s.state.data(), kDiskLayout.state_bytes},
                       blocks});
  }

  Status read(const Sample& sample, std::int32_t first_block, bool* equal) {
    const DiskMatch match = store->match(sample.scope, sample.tokens, kAny).value();
    const auto from = static_cast<std::size_t>(first_block);
    const Slots s = slots(static_cast<std::int32_t>(sample.kv.size() - from));
    std::vector<std::byte*> blocks;
    for (const KvBlockRef& b : s.blocks) blocks.push_back(b.data());
    const Status done =
        store->read(match.id, {{s.state.data(), kDiskLayout.state_bytes}, blocks, first_block});
    if (!done) return done;
    const auto same = [&](const std::byte* at, const std::vector<std::byte>& want) {
      std::vector<std::byte> got(want.size());
      arena->read(at, got);
      return got == want;
    };
    *equal = same(s.state.data(), sample.state);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      *equal = *equal && same(blocks[b], sample.kv[from + b]);
    }
    return done;
  }
};

}  // namespace

TEST_CASE("a state on a device goes to disk and back bit for bit, through read and write alone") {
  Device device;
  std::mt19937 random(11);
  for (const std::size_t n : {5U, 16U, 160U, 9001U}) {
    const Sample sample("tenant", random_tokens(random, n));
    REQUIRE(device.put(sample));
    for (const std::int32_t skip : {0, static_cast<std::int32_t>(n / 32)}) {
      bool equal = false;
      REQUIRE(device.read(sample, skip, &equal));
      CHECK(equal);
    }
    // What a store of the host's memory reads is the same.
    CHECK(ReadBack(*device.store, *device.store->match("tenant", sample.tokens, kAny))
              .equals(sample));
  }
}

TEST_CASE("blocks side by side on a device move together") {
  Device device;
  std::mt19937 random(12);
  const Sample sample("", random_tokens(random, 160));
  REQUIRE(device.put(sample));
  device.arena->moves = 0;
  std::vector<std::byte*> blocks;
  const Device::Slots s = device.slots(10);
  for (const KvBlockRef& b : s.blocks) blocks.push_back(b.data());
  const DiskMatch match = device.store->match("", sample.tokens, kAny).value();
  REQUIRE(device.store->read(match.id, {{s.state.data(), kDiskLayout.state_bytes}, blocks, 0}));
  CHECK(device.arena->moves == 1 + 2);  // five blocks in one slab of a state's size
}

TEST_CASE("bytes of a device pass through memory that it gives, asked for once, or any other") {
  std::mt19937 random(14);
  const Sample sample("", random_tokens(random, 160));
  for (const bool gives_none : {false, true}) {
    Device device;
    device.arena->gives_none = gives_none;
    bool equal = false;
    REQUIRE(device.put(sample));
    REQUIRE(device.read(sample, 0, &equal));
    CHECK(equal);
    const int asked = device.arena->asked;
    CHECK(asked > 0);
    REQUIRE(device.read(sample, 0, &equal));
    CHECK(device.arena->asked == asked);
  }
}

TEST_CASE("a device that cannot be read or written costs a write or a read, and no file") {
  Device device;
  std::mt19937 random(13);
  const Sample kept("", random_tokens(random, 40)), lost("", random_tokens(random, 50));
  REQUIRE(device.put(kept));
  const auto files = device.bench.files();

  const Device::Slots s = device.slots(4);
  std::vector<const std::byte*> blocks;
  for (const KvBlockRef& b : s.blocks) blocks.push_back(b.data());
  device.arena->fails = true;
  const auto put = device.store->put(
      {"", lost.tokens, StateKind::branch, {s.state.data(), kDiskLayout.state_bytes}, blocks});
  REQUIRE_FALSE(put);
  CHECK(put.error().code == ErrorCode::unavailable);
  CHECK(put.error().message.find("told to fail") != std::string::npos);
  CHECK(device.bench.files() == files);
  CHECK_FALSE(device.store->match("", lost.tokens, kAny));

  bool equal = false;
  const Status read = device.read(kept, 0, &equal);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::unavailable);
  device.arena->fails = false;
  REQUIRE(device.read(kept, 0, &equal));
  CHECK(equal);
  device.bench.clock += 60'000;
  CHECK(device.put(lost));
}
