// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "engine/cache/pools.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

constexpr model::MemoryLayout kSmall{.kv_block_bytes = 512, .state_bytes = 4096};

bool empty(const PoolUsage& u) {
  return u.blocks_live == 0 && u.states_live == 0 && u.blocks_reserved == 0 &&
         u.states_reserved == 0 && u.bytes_used == 0;
}

// Bytes of [p, p + n) that the system holds pages for.
std::size_t resident_bytes(const std::byte* p, std::size_t n) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((n + page - 1) / page);
  REQUIRE(::mincore(const_cast<std::byte*>(p), n, pages.data()) == 0);
  std::size_t resident = 0;
  for (unsigned char c : pages) resident += (c & 1) != 0 ? page : 0;
  return resident;
}

}  // namespace

TEST_CASE("a budget below one state and one block is refused with both byte counts") {
  REQUIRE_NOTHROW(MemoryPools(kSmall, 4608));
  try {
    MemoryPools pools(kSmall, 4607);
    FAIL("accepted");
  } catch (const DeviceError& e) {
    const std::string what = e.what();
    CHECK(what.find("4608 bytes needed") != std::string::npos);
    CHECK(what.find("4607 bytes") != std::string::npos);
  }
}

TEST_CASE("reservations count against one budget of bytes and give back what is not taken") {
  MemoryPools pools(kSmall, 3 * 4096 + 8 * 512);
  auto r = pools.reserve(8, 2);
  REQUIRE(r);
  CHECK(pools.usage().blocks_reserved == 8);
  CHECK(pools.usage().states_reserved == 2);
  CHECK(pools.usage().bytes_used == 8 * 512 + 2 * 4096);
  CHECK_FALSE(pools.reserve(0, 2));
  CHECK_FALSE(pools.reserve(9, 0));
  CHECK(pools.reserve(8, 0));  // the room of a third state serves blocks as well
  {
    const KvBlockRef block = r->take_block();
    const StateRef state = r->take_state();
    CHECK(r->blocks_left() == 7);
    CHECK(r->states_left() == 1);
    const PoolUsage u = pools.usage();
    CHECK(u.blocks_live == 1);
    CHECK(u.states_live == 1);
    CHECK(u.bytes_used == 8 * 512 + 2 * 4096);
    CHECK(reinterpret_cast<std::uintptr_t>(block.data()) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(state.data()) % 4096 == 0);
  }
  CHECK(pools.usage().bytes_used == 7 * 512 + 4096);
  Reservation moved = std::move(*r);
  CHECK(moved.blocks_left() == 7);
  CHECK(r->blocks_left() == 0);
  CHECK_THROWS_AS(r->take_block(), InvariantError);
  moved = Reservation();
  CHECK(empty(pools.usage()));
}

TEST_CASE("what could ever fit is decided by bytes alone") {
  MemoryPools pools(kSmall, 2 * 4096 + 3 * 512);
  CHECK(pools.could_ever_fit(3, 2));
  CHECK_FALSE(pools.could_ever_fit(4, 2));
  CHECK(pools.could_ever_fit(11, 1));
  CHECK_FALSE(pools.could_ever_fit(INT64_MAX, 0));
  CHECK_FALSE(pools.could_ever_fit(0, INT64_MAX));
  const auto all = pools.reserve(19, 0);
  CHECK(all);
  CHECK(pools.could_ever_fit(3, 2));
}

TEST_CASE("copies share an object and the last one returns it") {
  MemoryPools pools(kSmall, 1 << 16);
  KvBlockRef a = pools.reserve(1, 0)->take_block();
  KvBlockRef b = a;
  CHECK(a.use_count() == 2);
  CHECK(a.data() == b.data());
  KvBlockRef c = std::move(a);
  CHECK_FALSE(a);  // NOLINT(bugprone-use-after-move): moved-from handles are empty
  CHECK(c.use_count() == 2);
  b = KvBlockRef();
  CHECK(c.use_count() == 1);
  b = c;
  CHECK(b.use_count() == 2);
  const std::int32_t id = c.id();
  b = {};
  c = {};
  CHECK(empty(pools.usage()));
  CHECK(pools.reserve(1, 0)->take_block().id() == id);  // last in, first out
}

TEST_CASE("handles outlive the pools and are told apart from those of other pools") {
  StateRef state;
  Reservation rest;
  {
    MemoryPools old(kSmall, 1 << 16);
    rest = old.reserve(2, 1).value();
    state = rest.take_state();
    CHECK(old.owns(state));
    std::memset(state.data(), 1, kSmall.state_bytes);
  }
  MemoryPools fresh(kSmall, 1 << 16);
  CHECK_FALSE(fresh.owns(state));
  CHECK(state.data()[4095] == std::byte{1});
  const KvBlockRef block = rest.take_block();
  CHECK_FALSE(fresh.owns(block));
  CHECK(empty(fresh.usage()));
}

TEST_CASE("random traffic from several threads keeps the budget and ends where it began") {
  constexpr std::uint64_t kBudget = 256 * 1024;
  MemoryPools pools(kSmall, kBudget);
  std::atomic<bool> over{false}, torn{false};
  const auto worker = [&](std::uint32_t seed) {
    std::mt19937 rng(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::int32_t>(rng() % n); };
    std::vector<KvBlockRef> blocks;
    std::vector<StateRef> states;
    Reservation kept;
    for (int i = 0; i < 4000; ++i) {
      switch (below(6)) {
        case 0:
        case 1: {
          auto r = pools.reserve(below(24), below(4));
          if (!r) break;
          kept = std::move(*r);
          while (kept.blocks_left() > 8) {
            blocks.push_back(kept.take_block());
            // Exclusive until shared: nobody else writes here.
            std::memset(blocks.back().data(), static_cast<int>(seed), kSmall.kv_block_bytes);
            if (blocks.back().data()[511] != static_cast<std::byte>(seed)) torn = true;
          }
          while (kept.states_left() > 1) {
            states.push_back(kept.take_state());
            std::memset(states.back().data(), static_cast<int>(seed), kSmall.state_bytes);
          }
          break;
        }
        case 2:
          if (!blocks.empty()) blocks.push_back(blocks[rng() % blocks.size()]);
          break;
        case 3:
          kept = Reservation();
          break;
        case 4:
          while (!blocks.empty() && below(8) != 0) {
            std::swap(blocks[rng() % blocks.size()], blocks.back());
            blocks.pop_back();
          }
          break;
        default:
          if (!states.empty()) states.pop_back();
      }
      const PoolUsage u = pools.usage();
      if (u.bytes_used > kBudget) over = true;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t t = 1; t <= 4; ++t) threads.emplace_back(worker, t);
  for (auto& t : threads) t.join();
  CHECK_FALSE(over);
  CHECK_FALSE(torn);
  CHECK(empty(pools.usage()));
}

TEST_CASE("one object handed from thread to thread is returned once") {
  MemoryPools pools(kSmall, 1 << 16);
  for (int round = 0; round < 200; ++round) {
    const StateRef state = pools.reserve(0, 1)->take_state();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([copy = state]() mutable {
        const StateRef other = copy;
        copy = StateRef();
      });
    }
    for (auto& t : threads) t.join();
    CHECK(state.use_count() == 1);
    CHECK(pools.usage().states_live == 1);
  }
  CHECK(empty(pools.usage()));
}

TEST_CASE("resident memory follows the budget when one kind replaces the other") {
  constexpr model::MemoryLayout kLayout{.kv_block_bytes = 64 << 10, .state_bytes = 1 << 20};
  constexpr std::uint64_t kBudget = 32 << 20;
  MemoryPools pools(kLayout, kBudget);
  std::vector<const std::byte*> block_at, state_at;  // every address ever handed out
  const auto resident = [&] {
    std::size_t n = 0;
    for (const std::byte* p : block_at) n += resident_bytes(p, kLayout.kv_block_bytes);
    for (const std::byte* p : state_at) n += resident_bytes(p, kLayout.state_bytes);
    return n;
  };
  const auto remember = [](std::vector<const std::byte*>& all, const std::byte* p) {
    for (const std::byte* q : all) {
      if (q == p) return;
    }
    all.push_back(p);
  };
  for (int round = 0; round < 3; ++round) {
    {
      Reservation r = pools.reserve(512, 0).value();
      std::vector<KvBlockRef> blocks;
      while (r.blocks_left() > 0) {
        blocks.push_back(r.take_block());
        std::memset(blocks.back().data(), 1, kLayout.kv_block_bytes);
        remember(block_at, blocks.back().data());
      }
      CHECK(resident() <= kBudget);
    }
    {
      Reservation r = pools.reserve(0, 32).value();
      std::vector<StateRef> states;
      while (r.states_left() > 0) {
        states.push_back(r.take_state());
        std::memset(states.back().data(), 1, kLayout.state_bytes);
        remember(state_at, states.back().data());
        REQUIRE(resident() <= kBudget);
      }
    }
  }
  CHECK(block_at.size() == 512);
  CHECK(state_at.size() == 32);
  CHECK(resident() >= kBudget / 2);  // freed pages stay while nobody needs the room
}

TEST_CASE(
    "a sibling is one more handle to a slot that somebody holds, after the pools are gone, too") {
  KvBlockRef a, b;
  {
    MemoryPools pools(kSmall, 1 << 20);
    Reservation room = pools.reserve(2, 0).value();
    a = room.take_block();
    b = room.take_block();
  }
  KvBlockRef c = a.sibling(b.id());
  CHECK(c.data() == b.data());
  CHECK(b.use_count() == 2);
  b = KvBlockRef();
  a = KvBlockRef();
  CHECK(c.use_count() == 1);
  c.data()[0] = std::byte{7};
  CHECK(c.data()[0] == std::byte{7});
}
