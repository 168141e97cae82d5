// SPDX-License-Identifier: Apache-2.0
// Room: what is evicted for whom, what never is, and that everything comes back.
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr std::uint64_t kState = kFakeLayout.state_bytes, kBlock = kFakeLayout.kv_block_bytes;
constexpr std::uint64_t kAmple = 64 << 20;

bool same(const PoolUsage& a, const PoolUsage& b) {
  return a.blocks_live == b.blocks_live && a.states_live == b.states_live &&
         a.bytes_used == b.bytes_used;
}

}  // namespace

TEST_CASE("a request that no empty pool could hold is refused with both byte counts") {
  FakeServer s(kState + 10 * kBlock, branch_policy());
  const auto fits = s.lookup(document(1, 150), 10);
  CHECK(std::holds_alternative<Lease>(fits));
  const auto result = s.lookup(document(1, 150), 11);
  REQUIRE(std::holds_alternative<NoRoom>(result));
  const NoRoom& no = std::get<NoRoom>(result);
  CHECK_FALSE(no.ever);
  CHECK(no.message.find("needs " + std::to_string(kState + 11 * kBlock) + " bytes") !=
        std::string::npos);
  CHECK(no.message.find("has " + std::to_string(kState + 10 * kBlock) + " bytes") !=
        std::string::npos);
  // Only 256 tokens of a long answer are reserved.
  FakeServer large(kState + 17 * kBlock, branch_policy());
  CHECK(std::holds_alternative<Lease>(large.lookup(document(1, 16), 1 << 30)));
}

TEST_CASE("live work that holds everything is no reason to empty the cache") {
  FakeServer s(12 * kState, branch_policy());
  s.serve(document(1, 100));
  s.serve(document(2, 100));
  auto live = s.lookup(document(3, 300));  // 20 blocks and a state, and one more for its end
  REQUIRE(std::holds_alternative<Lease>(live));
  const PrefixStats before = s.cache.stats();
  const auto result = s.lookup(document(4, 1000));
  REQUIRE(std::holds_alternative<NoRoom>(result));
  CHECK(std::get<NoRoom>(result).ever);
  CHECK(s.cache.stats().evicted == before.evicted);
  live = NoRoom{};
  s.cache.end(3);
  CHECK(std::holds_alternative<Lease>(s.lookup(document(4, 1000))));
}

TEST_CASE("a request runs cold where the state it could resume from is what stands in the way") {
  // Running alone it fits; beside the state it came from it does not.
  FakeServer s(2 * kState + 14 * kBlock, branch_policy());
  const Tokens a = document(1, 150);
  s.serve(a);
  CHECK(s.cache.stats().states == 1);
  const auto result = s.lookup(a + document(2, 190), 8);
  REQUIRE(std::holds_alternative<Lease>(result));
  CHECK(std::get<Lease>(result).resume == 0);
  CHECK(std::get<Lease>(result).overlap == 150);
  CHECK(s.cache.stats().states == 0);
}

TEST_CASE("what leases hold is never evicted and never moves") {
  FakeServer s(40 * kState, branch_policy());
  const Tokens a = document(1, 200);
  s.serve(a);
  auto result = s.lookup(a + document(2, 50));
  Lease& lease = std::get<Lease>(result);
  REQUIRE(lease.resume == 199);
  const std::byte* state = lease.resume_state.data();
  const std::byte* block = lease.prefix_blocks[5].data();
  for (std::uint64_t i = 0; i < 40; ++i) s.serve(document(10 + i, 300));
  s.evict_all();
  CHECK(s.cache.stats().states == 1);
  CHECK(s.cache.stats().kv_bytes == 13 * kBlock);
  CHECK(lease.resume_state.data() == state);
  CHECK(lease.prefix_blocks[5].data() == block);
  CHECK(holds_prefix(lease, a));
  s.cache.clear();  // even then the lease goes on with what it holds
  CHECK(holds_prefix(lease, a));
  result = NoRoom{};
  CHECK(s.pools.usage().bytes_used == 0);
}

TEST_CASE("eviction follows the policy's order and gives back a state with its KV") {
  const auto value = [](const ValuedClaim& c) { return static_cast<double>(c.position % 7); };
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(ends_and_branches, value));
  for (std::int32_t n = 0; n < 7; ++n) {
    s.serve(document(static_cast<std::uint64_t>(n), 50 + n));
  }
  for (std::int32_t gone = 0; gone < 7; ++gone) {
    CHECK(s.evict_one() == kState + 4 * kBlock);
    CHECK(s.cache.stats().states == 6 - gone);
  }
  CHECK(s.evict_one() == 0);
}

TEST_CASE("a state whose neighbour went is valued anew") {
  const auto place = [](const RequestView&) {
    return std::vector<Placement>{
        {100, StateKind::planned}, {350, StateKind::planned}, {400, StateKind::planned}};
  };
  const auto value = [](const ValuedClaim& c) { return -static_cast<double>(c.gap); };
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(place, value));
  const Tokens a = document(1, 500);
  s.serve(a);
  const auto left = [&] {
    LookupRequest r;
    r.id = 99;
    r.tokens = seq(a);
    r.may_wait = false;
    const auto result = s.cache.lookup(r);
    s.cache.end(99);
    return std::get<Lease>(result).resume;
  };
  s.evict_one();  // gaps 100, 250, 50
  CHECK(left() == 400);
  s.evict_one();  // gaps 100, 300
  CHECK(left() == 100);
}

TEST_CASE("eviction gives back only what nobody else holds") {
  FakeServer s(kAmple, branch_policy());
  const Tokens a = document(1, 64);
  auto result = s.lookup(a, 0);
  FakePrefill run(std::move(std::get<Lease>(result)), seq(a));
  for (SavedState& state : run.finish_prompt()) s.cache.publish(std::move(state));
  CHECK(s.evict_one() == kState);  // its blocks are the running request's as well
  CHECK(s.pools.usage().blocks_live == 4);
}

TEST_CASE("saves that find no room are left out and counted, the surest stay") {
  // Values: an old state is worth more than any save, so that saves get free room only.
  const auto value = [](const ValuedClaim& c) { return -static_cast<double>(c.last_used); };
  const auto place = [](const RequestView& q) {
    std::vector<Placement> out;
    for (std::int32_t p = 16; p < q.length - 1; p += 16) out.push_back({p, StateKind::planned});
    out.push_back({q.length - 1, StateKind::prompt_end});
    return out;
  };
  FakeServer s(4 * kState + 8 * kBlock, std::make_unique<ScriptedPolicy>(place, value));
  {
    const auto result = s.lookup(document(1, 100), 12);  // 7 blocks
    const Lease& lease = std::get<Lease>(result);
    REQUIRE(lease.saves.size() == 3);
    CHECK(lease.saves[0].position == 16);
    CHECK(lease.saves[1].position == 32);
    CHECK(lease.saves[2].kind == StateKind::prompt_end);
    CHECK(s.cache.stats().skipped == 4);
  }
  CHECK(s.pools.usage().bytes_used == 0);
}

TEST_CASE("extend takes room from the cache and says when there is none") {
  FakeServer s(10 * kState, branch_policy());
  for (std::uint64_t i = 0; i < 5; ++i) s.serve(document(i, 60));
  const std::int64_t cached = s.cache.stats().states;
  CHECK(cached == 5);
  auto more = s.cache.extend(70);
  REQUIRE(more);
  CHECK(more->blocks_left() == 70);
  CHECK(s.cache.stats().states < cached);
  const std::uint64_t evicted = s.cache.stats().evicted;
  CHECK_FALSE(s.cache.extend(11));
  CHECK(s.cache.stats().evicted == evicted);
  CHECK(s.cache.extend(10));
}

TEST_CASE("A23: leases dropped at any moment, on any thread, return everything") {
  FakeServer s(kAmple, branch_policy());
  const Tokens shared = document(1, 100);
  s.serve(shared);
  const PoolUsage start = s.pools.usage();
  std::mt19937 rng(5);
  std::vector<std::thread> threads;
  for (int i = 0; i < 300; ++i) {
    const Tokens t = shared + document(rng() % 9 + 2, static_cast<std::int32_t>(rng() % 80));
    LookupRequest r;
    r.id = static_cast<SequenceId>(i) + 10;
    r.tokens = seq(t);
    r.max_new = 20;
    r.may_wait = i % 2 == 0;
    auto result = s.cache.lookup(r);
    auto* lease = std::get_if<Lease>(&result);
    if (lease == nullptr) continue;
    switch (rng() % 4) {
      case 0:  // between match and start
        break;
      case 1: {  // after copy-on-write, part of the prompt computed
        FakePrefill run(std::move(*lease), seq(t));
        run.advance(run.position() + static_cast<std::int32_t>(rng() % 10) %
                                         (static_cast<std::int32_t>(t.size()) - run.position()));
        break;
      }
      case 2:  // elsewhere
        threads.emplace_back([held = std::move(*lease)]() mutable { held = Lease{}; });
        break;
      default: {  // with a save that nobody publishes
        FakePrefill run(std::move(*lease), seq(t));
        const auto lost = run.finish_prompt();
      }
    }
    s.cache.end(r.id);
  }
  for (auto& t : threads) t.join();
  CHECK(same(s.pools.usage(), start));
  CHECK(s.idle());
  s.cache.clear();
  CHECK(s.pools.usage().bytes_used == 0);
}

TEST_CASE("kinds of states are counted as they come and go") {
  FakeServer s(kAmple, branch_policy());
  const Tokens a = document(1, 100);
  s.serve(a, document(2, 10));
  s.serve(a + document(3, 10));
  PrefixStats st = s.cache.stats();
  const auto count = [&st](StateKind kind) {
    return st.states_by_kind[static_cast<std::size_t>(kind)];
  };
  CHECK(count(StateKind::prompt_end) == 2);
  CHECK(count(StateKind::answer_end) == 1);
  CHECK(count(StateKind::branch) == 1);
  CHECK(st.stored == 4);
  CHECK(st.state_bytes == 4 * kState);
  s.evict_one();
  st = s.cache.stats();
  CHECK(st.states == 3);
  CHECK(st.evicted == 1);
  s.cache.clear();
  st = s.cache.stats();
  CHECK(st.states == 0);
  CHECK(st.evicted == 1);
  CHECK(st.stored == 4);
  CHECK(count(StateKind::branch) == 0);
}
