// SPDX-License-Identifier: Apache-2.0
// Pools in an arena, beside a model that looks at nothing but the addresses it was given.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "engine/cache/pools.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/host_arena.hpp"

using namespace cairn;
using namespace cairn::engine;
using testing::HostArena;

namespace {

struct Sizes {
  model::MemoryLayout layout;
  std::int64_t slab = 0, per_slab[2] = {};  // blocks, states
};
// Slabs of three blocks or one state, of four or one, of one or two.
const Sizes kSizes[] = {
    {{.kv_block_bytes = 300, .state_bytes = 1700}, 1792, {3, 1}},
    {{.kv_block_bytes = 256, .state_bytes = 1024}, 1024, {4, 1}},
    {{.kv_block_bytes = 1200, .state_bytes = 500}, 1280, {1, 2}},
};

// What a slab can still give, from the live addresses.
struct Oracle {
  Oracle(const Sizes& s, std::int64_t slabs) : sizes(s), used(static_cast<std::size_t>(slabs)) {}

  bool fits(std::int64_t blocks, std::int64_t states) const {
    std::int64_t empty = 0, free[2] = {};
    for (const auto& u : used) {
      if (u[0] + u[1] == 0) ++empty;
      for (int k = 0; k < 2; ++k) {
        if (u[k] > 0) free[k] += sizes.per_slab[k] - u[k];
      }
    }
    const std::int64_t wanted[2] = {blocks + reserved[0], states + reserved[1]};
    for (int k = 0; k < 2; ++k) {
      const std::int64_t beyond = std::max<std::int64_t>(wanted[k] - free[k], 0);
      empty -= (beyond + sizes.per_slab[k] - 1) / sizes.per_slab[k];
    }
    return empty >= 0;
  }

  Sizes sizes;
  std::vector<std::array<std::int64_t, 2>> used;
  std::int64_t reserved[2] = {};
};

struct Live {
  KvBlockRef block;
  StateRef state;
  int kind() const { return block ? 0 : 1; }
  std::byte* data() const { return block ? block.data() : state.data(); }
};

class Traffic {
 public:
  Traffic(const Sizes& sizes, std::int64_t slabs, unsigned seed)
      : arena_(std::make_shared<HostArena>(static_cast<std::size_t>(slabs * sizes.slab))),
        pools_(sizes.layout, arena_->size(), arena_),
        oracle_(sizes, slabs),
        rng_(seed) {}

  void step() {
    switch (below(4)) {
      case 0:
        return reserve(below(10), below(4));
      case 1:
      case 2:
        return take();
      default:
        return drop();
    }
  }
  void end() {
    while (!live_.empty()) drop();
    promised_.clear();
    oracle_.reserved[0] = oracle_.reserved[1] = 0;
    CHECK(pools_.usage().bytes_used == 0);
    const auto slabs = static_cast<std::int64_t>(oracle_.used.size());
    const auto all = static_cast<std::int32_t>(slabs * oracle_.sizes.per_slab[0]);
    CHECK(pools_.reserve(all, 0));
    CHECK_FALSE(pools_.reserve(all + 1, 0));
  }

 private:
  std::int32_t below(unsigned n) { return static_cast<std::int32_t>(rng_() % n); }

  void reserve(std::int32_t blocks, std::int32_t states) {
    const bool fits = oracle_.fits(blocks, states);
    REQUIRE((pools_.lacking_bytes(blocks, states) == 0) == fits);
    auto r = pools_.reserve(blocks, states);
    REQUIRE(r.has_value() == fits);
    if (!r) return;
    oracle_.reserved[0] += blocks;
    oracle_.reserved[1] += states;
    promised_.push_back(std::move(*r));
  }

  // Of any promise, in any order: what is promised is there.
  void take() {
    if (promised_.empty()) return;
    Reservation& r = promised_[static_cast<std::size_t>(below(promised_.size()))];
    const int kind = r.blocks_left() == 0 || (r.states_left() > 0 && below(2) == 0) ? 1 : 0;
    if (kind == 1 && r.states_left() == 0) return;
    Live l;
    if (kind == 0) l.block = r.take_block();
    if (kind == 1) l.state = r.take_state();
    --oracle_.reserved[kind];
    place(l, kind);
    live_.push_back(std::move(l));
  }

  void place(const Live& l, int kind) {
    const std::int64_t bytes = static_cast<std::int64_t>(
        kind == 0 ? oracle_.sizes.layout.kv_block_bytes : oracle_.sizes.layout.state_bytes);
    const std::int64_t at = l.data() - arena_->data();
    REQUIRE(at % 256 == 0);
    REQUIRE(at >= 0);
    REQUIRE(at + bytes <= static_cast<std::int64_t>(arena_->size()));
    const auto next = places_.upper_bound(at);
    if (next != places_.end()) REQUIRE(at + bytes <= next->first);
    if (next != places_.begin()) {
      const auto before = std::prev(next);
      REQUIRE(before->first + before->second <= at);
    }
    places_[at] = bytes;
    auto& used = oracle_.used[static_cast<std::size_t>(at / oracle_.sizes.slab)];
    ++used[static_cast<std::size_t>(kind)];
    REQUIRE((used[0] == 0 || used[1] == 0));
  }

  void drop() {
    if (below(12) == 0 && !promised_.empty()) {  // a promise of which not all was taken
      Reservation& r = promised_[static_cast<std::size_t>(below(promised_.size()))];
      oracle_.reserved[0] -= r.blocks_left();
      oracle_.reserved[1] -= r.states_left();
      std::swap(r, promised_.back());
      promised_.pop_back();
    }
    if (live_.empty()) return;
    Live& l = live_[static_cast<std::size_t>(below(live_.size()))];
    const std::int64_t at = l.data() - arena_->data();
    const auto kind = static_cast<std::size_t>(l.kind());
    --oracle_.used[static_cast<std::size_t>(at / oracle_.sizes.slab)][kind];
    places_.erase(at);
    std::swap(l, live_.back());
    live_.pop_back();
  }

  std::shared_ptr<HostArena> arena_;
  MemoryPools pools_;
  Oracle oracle_;
  std::mt19937 rng_;
  std::vector<Reservation> promised_;
  std::vector<Live> live_;
  std::map<std::int64_t, std::int64_t> places_;  // bytes by offset
};

std::vector<KvBlockRef> take_blocks(MemoryPools& pools, std::int32_t n) {
  Reservation r = pools.reserve(n, 0).value();
  std::vector<KvBlockRef> blocks;
  while (r.blocks_left() > 0) blocks.push_back(r.take_block());
  return blocks;
}

}  // namespace

TEST_CASE("slabs keep every promise, overlap nowhere and come back whole under random traffic") {
  for (const Sizes& sizes : kSizes) {
    for (const std::int64_t slabs : {2, 5, 17}) {
      Traffic traffic(sizes, slabs, static_cast<unsigned>(slabs));
      for (int i = 0; i < 3000; ++i) traffic.step();
      traffic.end();
    }
  }
}

TEST_CASE("an arena below two slabs is refused with both byte counts") {
  const auto arena = std::make_shared<HostArena>(2 * 1792 - 1);
  try {
    MemoryPools pools(kSizes[0].layout, 1 << 20, arena);
    FAIL("accepted");
  } catch (const DeviceError& e) {
    const std::string what = e.what();
    CHECK(what.find("3584 bytes needed") != std::string::npos);
    CHECK(what.find("3583 bytes available") != std::string::npos);
  }
}

TEST_CASE("what could ever fit an arena is counted in slabs") {
  const auto arena = std::make_shared<HostArena>(4 * 1792 + 1000);
  const MemoryPools pools(kSizes[0].layout, arena->size(), arena);
  CHECK(pools.usage().bytes_budget == 4 * 1792);
  CHECK(pools.could_ever_fit(9, 1));
  CHECK_FALSE(pools.could_ever_fit(10, 1));
  CHECK(pools.could_ever_fit(12, 0));
  CHECK_FALSE(pools.could_ever_fit(0, 5));
  CHECK_FALSE(pools.could_ever_fit(INT64_MAX, 0));
  CHECK_FALSE(pools.could_ever_fit(-1, 0));
}

TEST_CASE("a block in a slab keeps states out of it although the bytes would do") {
  const auto arena = std::make_shared<HostArena>(3 * 1792);
  MemoryPools pools(kSizes[0].layout, arena->size(), arena);
  std::vector<KvBlockRef> blocks = take_blocks(pools, 9);
  std::sort(blocks.begin(), blocks.end(),
            [](const KvBlockRef& a, const KvBlockRef& b) { return a.data() < b.data(); });
  const std::vector<KvBlockRef> spread{blocks[0], blocks[3], blocks[6]};
  blocks.clear();
  CHECK(pools.usage().bytes_used == 3 * 300);
  CHECK_FALSE(pools.reserve(0, 1));
  CHECK(pools.lacking_bytes(0, 1) == 1700);
  CHECK(pools.reserve(6, 0));
}

TEST_CASE("blocks go to the fullest slab, so that others become empty") {
  const auto arena = std::make_shared<HostArena>(4 * 1024);
  MemoryPools pools(kSizes[1].layout, arena->size(), arena);
  std::vector<KvBlockRef> blocks = take_blocks(pools, 8);  // two slabs
  std::sort(blocks.begin(), blocks.end(),
            [](const KvBlockRef& a, const KvBlockRef& b) { return a.data() < b.data(); });
  blocks[1] = {};                          // three left in the first
  blocks[5] = blocks[6] = blocks[7] = {};  // one in the second
  const std::vector<KvBlockRef> one = take_blocks(pools, 1);
  CHECK(one[0].data() < arena->data() + 1024);
  blocks[4] = {};
  CHECK(pools.reserve(0, 3));
}

TEST_CASE("an arena lives as long as one of its slots") {
  KvBlockRef block;
  std::weak_ptr<HostArena> watched;
  {
    const auto arena = std::make_shared<HostArena>(4 * 1024);
    watched = arena;
    MemoryPools pools(kSizes[1].layout, arena->size(), arena);
    block = pools.reserve(1, 0)->take_block();
  }
  REQUIRE_FALSE(watched.expired());
  std::memset(block.data(), 1, 256);
  block = {};
  CHECK(watched.expired());
}
