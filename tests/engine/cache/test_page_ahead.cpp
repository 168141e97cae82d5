// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_ahead.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
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

TEST_CASE("slots have their pages before they are handed out, as far as there is room") {
  const SmallPages small;
  constexpr std::size_t kStride = 64 << 10;
  constexpr std::int32_t kSlots = 16;
  void* p =
      ::mmap(nullptr, kSlots * kStride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED);
  auto* const base = static_cast<std::byte*>(p);
  std::memset(base, 7, kStride);
  const auto resident = [&] { return resident_bytes(base, kSlots * kStride) / kStride; };
  {
    PageAhead pages(base, kStride, kSlots, 4);
    CHECK(resident() == 1);  // before it is told what is in use
    pages.advance(1, 100);
    REQUIRE(soon([&] { return pages.ahead() == 4; }));
    CHECK(resident() == 5);
    pages.advance(3, 100);  // two of them are handed out
    REQUIRE(soon([&] { return pages.ahead() == 4; }));
    CHECK(resident() == 7);
    pages.advance(3, 1);  // somebody else needs the room
    CHECK(pages.ahead() == 1);
    CHECK(resident() == 4);
    pages.advance(14, 100);  // the last ones
    REQUIRE(soon([&] { return pages.ahead() == 2; }));
    CHECK(resident_bytes(base + 14 * kStride, 2 * kStride) == 2 * kStride);
  }
  for (std::size_t i = 0; i < kStride; ++i) REQUIRE(base[i] == std::byte{7});
  ::munmap(p, kSlots * kStride);
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
