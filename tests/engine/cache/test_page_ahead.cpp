// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_ahead.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
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
  static constexpr std::int32_t kSlots = 16;

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
    PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, 0);
    CHECK(slots.resident() == 1);  // before it is told what is in use
    pages.advance(1, 4);
    REQUIRE(soon([&] { return pages.ahead() == 4; }));
    CHECK(slots.resident() == 5);
    pages.advance(3, 4);  // two of them are handed out
    REQUIRE(soon([&] { return pages.ahead() == 4; }));
    CHECK(slots.resident() == 7);
    pages.advance(3, 1);  // somebody else needs the room
    CHECK(pages.ahead() == 1);
    CHECK(slots.resident() == 4);
    pages.advance(14, 100);  // the last ones
    REQUIRE(soon([&] { return pages.ahead() == 2; }));
    CHECK(resident_bytes(slots.base + 14 * Slots::kStride, 2 * Slots::kStride) ==
          2 * Slots::kStride);
  }
  for (std::size_t i = 0; i < Slots::kStride; ++i) REQUIRE(slots.base[i] == std::byte{7});
}

TEST_CASE("while something runs only a few slots get their pages ahead") {
  const Slots slots;
  PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, 2);
  pages.set_quiet(false);
  pages.advance(0, 10);
  REQUIRE(soon([&] { return pages.ahead() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK(pages.ahead() == 2);
  CHECK(slots.resident() == 2);
  pages.set_quiet(true);
  REQUIRE(soon([&] { return pages.ahead() == 10; }));
  pages.set_quiet(false);
  pages.advance(9, 7);  // one is left, which is too few
  REQUIRE(soon([&] { return pages.ahead() == 2; }));
  CHECK(slots.resident() == 11);
}

TEST_CASE(
    "pages of slots that are handed out, wanted and given back at random stay within the room") {
  const Slots slots;
  std::int32_t next = 0;
  PageAhead pages(slots.base, Slots::kStride, Slots::kSlots, 1);
  std::mt19937 random(5);
  const auto below = [&](unsigned n) { return static_cast<std::int32_t>(random() % n); };
  for (int i = 0; i < 300; ++i) {
    if (below(20) == 0 && next < Slots::kSlots) ++next;
    const std::int64_t room = below(6);
    pages.set_quiet(below(4) > 0);
    pages.advance(next, room);
    CHECK(pages.ahead() <= room);
    if (below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  pages.set_quiet(true);
  pages.advance(next, 3);
  const std::int32_t last = std::min(3, Slots::kSlots - next);
  REQUIRE(soon([&] { return pages.ahead() == last; }));
  const std::size_t above =
      resident_bytes(slots.base + next * Slots::kStride, (Slots::kSlots - next) * Slots::kStride);
  CHECK(above == static_cast<std::size_t>(last) * Slots::kStride);
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
    const auto ahead = [&] { return resident_bytes(first.data(), kBudget - state); };
    if (state == 2 << 20) {
      CHECK(soon([&] { return ahead() == kAhead / 2; }));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      CHECK(ahead() == 0);
    }
  }
}
