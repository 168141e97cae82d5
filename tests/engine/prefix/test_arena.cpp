// SPDX-License-Identifier: Apache-2.0
// The cache over pools in an arena, where what fits by bytes may not fit.
#include <random>

#include "engine/placement/policy_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"
#include "tests/support/host_arena.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

// Slabs of one state or four blocks: blocks of many prompts lie in one slab.
constexpr std::uint64_t kSlabBytes = 1024;

std::unique_ptr<CachePolicy> forest_policy() { return make_cache_policy("forest").take(); }

}  // namespace

TEST_CASE("in an arena every request that fits it alone is served, whatever is cached") {
  for (const auto& policy : {branch_policy, forest_policy}) {
    constexpr std::uint64_t kSlabs = 24;
    const auto arena = std::make_shared<testing::HostArena>(kSlabs * kSlabBytes);
    FakeServer s(arena->size(), policy(), {}, arena);
    std::mt19937 rng(5);
    int warm = 0;
    for (int i = 0; i < 400; ++i) {
      const Tokens shared = document(rng() % 6, 40 + static_cast<std::int32_t>(rng() % 4) * 60);
      const Tokens own = document(1000 + rng() % 50, 1 + static_cast<std::int32_t>(rng() % 700));
      warm += s.serve(shared + own, document(rng(), 5)) > 0 ? 1 : 0;
      REQUIRE(s.idle());
    }
    s.cache.verify();
    CHECK(warm > 20);
    CHECK(s.cache.stats().evicted > 20);
    s.cache.clear();
    CHECK(s.pools.usage().bytes_used == 0);
  }
}

TEST_CASE("where slabs and not bytes are short, the cache is emptied until the request fits") {
  constexpr std::uint64_t kSlabs = 8;
  const auto arena = std::make_shared<testing::HostArena>(kSlabs * kSlabBytes);
  FakeServer s(arena->size(), branch_policy(), {}, arena);
  for (std::uint64_t d = 0; d < 2; ++d) s.serve(document(d, 20));
  REQUIRE(s.cache.stats().states == 2);
  // 2 states, 4 blocks: three slabs in use, five empty, and all of them for this one.
  const Reservation live = s.cache.extend(0, 5).value();
  CHECK(s.cache.stats().states == 2);
  CHECK(s.pools.usage().bytes_budget - s.pools.usage().bytes_used > 2 * 16 * 8);
  const auto room = s.cache.extend(0, 2);
  CHECK(room.has_value());
  CHECK(s.cache.stats().states == 0);
}
