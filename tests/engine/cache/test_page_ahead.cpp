// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_ahead.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/cache/pools.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

// Where the system gives huge pages unasked, one touch would bring a slot's neighbours.
struct SmallPages {
  SmallPages() { REQUIRE(::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0); }
  ~SmallPages() { ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }
};

std::size_t resident_bytes(const std::byte* p, std::size_t n) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((n + page - 1) / page);
  REQUIRE(::mincore(const_cast<std::byte*>(p), n, pages.data()) == 0);
  std::size_t resident = 0;
  for (const unsigned char c : pages) resident += (c & 1) != 0 ? page : 0;
  return resident;
}

template <class Ready>
bool soon(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

struct Slots {
  static constexpr std::size_t kStride = 64 << 10;
  static constexpr std::int32_t kSlots = 64;

  Slots() {
    void* p = ::mmap(nullptr, kSlots * kStride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    REQUIRE(p != MAP_FAILED);
    base = static_cast<std::byte*>(p);
  }
  Slots(const Slots&) = delete;
  ~Slots() { ::munmap(base, kSlots * kStride); }
  std::size_t resident() const { return resident_bytes(base, kSlots * kStride) / kStride; }

  const SmallPages small;
  std::byte* base = nullptr;
};

TEST_CASE(
    "while nothing runs slots have their pages before they are handed out, where there is room") {
  const Slots slots;
  std::memset(slots.base, 7, Slots::kStride);
  {
    PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, {});
    CHECK(slots.resident() == 1);  // before it is told what is in use
    pages.hand_out(1);
    pages.want(4);
    REQUIRE(soon([&] { return pages.ahead() == 4; }));
    CHECK(slots.resident() == 5);
    pages.hand_out(3);  // two of them are handed out
    pages.want(4);
    REQUIRE(soon([&] { return pages.ahead() == 4; }));
    CHECK(slots.resident() == 7);
    pages.hand_out(3);  // somebody else needs the room
    pages.want(1);
    CHECK(pages.ahead() == 1);
    CHECK(slots.resident() == 4);
    pages.hand_out(Slots::kSlots - 2);  // the last ones
    pages.want(100);
    REQUIRE(soon([&] { return pages.ahead() == 2; }));
    CHECK(resident_bytes(slots.base + (Slots::kSlots - 2) * Slots::kStride, 2 * Slots::kStride) ==
          2 * Slots::kStride);
  }
  for (std::size_t i = 0; i < Slots::kStride; ++i) REQUIRE(slots.base[i] == std::byte{7});
}

TEST_CASE("while something runs only a few slots get their pages ahead") {
  const Slots slots;
  PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, {.few = 2});
  pages.set_quiet(false);
  pages.hand_out(0);
  pages.want(10);
  REQUIRE(soon([&] { return pages.ahead() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK(pages.ahead() == 2);
  CHECK(slots.resident() == 2);
  pages.set_quiet(true);
  REQUIRE(soon([&] { return pages.ahead() == 10; }));
  pages.set_quiet(false);
  pages.hand_out(9);  // one is left, which is too few
  pages.want(7);
  REQUIRE(soon([&] { return pages.ahead() == 2; }));
  CHECK(slots.resident() == 11);
}

TEST_CASE(
    "slots that are handed out at any moment keep what is written, and pages stay within what is "
    "wanted") {
  const Slots slots;
  std::int32_t next = 0;
  PageAhead::Options options;
  options.few = 4;  // at once
  options.piece = Slots::kStride / 4;
  PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, options);
  std::mt19937 random(5);
  const auto below = [&](unsigned n) { return static_cast<std::int32_t>(random() % n); };
  const auto slot = [&](std::int32_t i) {
    return slots.base + static_cast<std::size_t>(i) * Slots::kStride;
  };
  for (int i = 0; i < 600; ++i) {
    if (below(10) == 0 && next < Slots::kSlots - 4) {
      pages.hand_out(++next);
      std::memset(slot(next - 1), next, Slots::kStride);
    }
    const std::int32_t wanted = below(4);
    pages.want(wanted);
    CHECK(pages.ahead() <= wanted);
    if (below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(60)));
    if (i % 10 != 0) continue;
    // Whatever was in flight: these slots have all of their pages, and nothing else has any.
    REQUIRE(soon([&] { return pages.ahead() == wanted; }));
    CHECK(soon([&] {
      return resident_bytes(slot(next),
                            static_cast<std::size_t>(Slots::kSlots - next) * Slots::kStride) ==
             static_cast<std::size_t>(wanted) * Slots::kStride;
    }));
  }
  for (std::int32_t i = 0; i < next; ++i) {
    for (std::size_t b = 0; b < Slots::kStride; ++b) {
      if (slot(i)[b] != static_cast<std::byte>(i + 1)) FAIL("slot " << i << " has lost a byte");
    }
  }
}

TEST_CASE(
    "while the system has no memory to spare no slot gets pages ahead, and afterwards they do") {
  const Slots slots;
  std::atomic<bool> spare{false};
  std::atomic<int> asked{0};
  PageAhead::Options options;
  options.spare = [&] {
    ++asked;
    return spare.load();
  };
  PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, options);
  pages.hand_out(0);
  pages.want(3);
  REQUIRE(soon([&] { return asked > 0; }));
  CHECK(slots.resident() == 0);
  spare = true;
  CHECK(soon([&] { return pages.ahead() == 3; }));
}

TEST_CASE("large states have pages ahead, never more than the budget has left") {
  const SmallPages small;
  constexpr model::MemoryLayout kLayout{.kv_block_bytes = 256 << 10, .state_bytes = 2 << 20};
  constexpr std::uint64_t kBudget = 16 << 20;
  MemoryPools pools(kLayout, kBudget);
  Reservation r = pools.reserve(48, 2).value();  // all of it
  const StateRef state = r.take_state();
  std::memset(state.data(), 1, kLayout.state_bytes);
  CHECK(soon([&] { return resident_bytes(state.data(), 2 * kLayout.state_bytes) > 3 << 20; }));
  std::vector<KvBlockRef> blocks;
  const auto resident = [&] {
    return resident_bytes(state.data(), 8 * kLayout.state_bytes) +
           resident_bytes(blocks.front().data(), 64 * kLayout.kv_block_bytes);
  };
  while (r.blocks_left() > 0) {
    blocks.push_back(r.take_block());
    std::memset(blocks.back().data(), 1, kLayout.kv_block_bytes);
  }
  const StateRef other = r.take_state();
  std::memset(other.data(), 1, kLayout.state_bytes);
  CHECK(soon([&] { return resident() == kBudget; }));
}

TEST_CASE(
    "of a host's memory as much is obtained ahead as was allowed, nothing without states of some "
    "size") {
  const SmallPages small;
  constexpr std::uint64_t kBudget = 16 << 20, kAhead = 8 << 20;
  for (const std::size_t state : {std::size_t{2} << 20, std::size_t{1} << 20}) {
    const model::MemoryLayout layout{.kv_block_bytes = 256 << 10, .state_bytes = state};
    MemoryPools pools(layout, kBudget, nullptr, kAhead);
    Reservation r = pools.reserve(0, 1).value();
    const StateRef first = r.take_state();
    const auto ahead = [&] { return resident_bytes(first.data() + state, kBudget - state); };
    if (state == 2 << 20) {
      CHECK(pools.pages_ahead() == kAhead);
      CHECK(soon([&] { return ahead() == kAhead / 2; }));
    } else {
      CHECK(pools.pages_ahead() == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      CHECK(ahead() == 0);
    }
  }
}

TEST_CASE("pages that a kind of slot has ahead stay when the other takes its own") {
  const SmallPages small;
  constexpr model::MemoryLayout kLayout{.kv_block_bytes = 256 << 10, .state_bytes = 2 << 20};
  constexpr std::uint64_t kBudget = 16 << 20;
  MemoryPools pools(kLayout, kBudget);
  Reservation r = pools.reserve(32, 4).value();
  const KvBlockRef block = r.take_block();
  const StateRef state = r.take_state();
  const auto ahead_of_blocks = [&] {
    return resident_bytes(block.data() + kLayout.kv_block_bytes, kBudget / 2);
  };
  // All but a state and a block, half of it to each kind, in whole slots.
  REQUIRE(soon([&] { return ahead_of_blocks() >= 27 * kLayout.kv_block_bytes; }));
  REQUIRE(
      soon([&] { return resident_bytes(state.data() + kLayout.state_bytes, 6 << 20) == 6 << 20; }));
  const std::size_t before = ahead_of_blocks();
  pools.set_quiet(false);
  const StateRef second = r.take_state();
  const StateRef third = r.take_state();
  CHECK(ahead_of_blocks() == before);
}
