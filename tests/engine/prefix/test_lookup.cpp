// SPDX-License-Identifier: Apache-2.0
// What users of other servers ran into (case ids of the project's list), at the level of the cache.
#include <algorithm>
#include <string>

#include "engine/placement/policy_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr std::uint64_t kAmple = 64 << 20;

Placement at(std::int32_t position, StateKind kind) { return {position, kind}; }

// The end, the branch, and a state every `step` tokens.
std::unique_ptr<CachePolicy> grid_policy(std::int32_t step) {
  return std::make_unique<ScriptedPolicy>([step](const RequestView& q) {
    std::vector<Placement> out = ends_and_branches(q);
    for (std::int32_t p = step; p < q.length; p += step) out.push_back(at(p, StateKind::planned));
    return out;
  });
}

}  // namespace

TEST_CASE("A1: a shared prefix of 480 tokens hits") {
  FakeServer plain(kAmple, branch_policy());
  const Tokens shared = document(1, 480);
  CHECK(plain.serve(shared + document(2, 50)) == 0);
  CHECK(plain.serve(shared + document(3, 60)) == 0);  // the fork shows and is saved
  CHECK(plain.overlap == 480);
  CHECK(plain.reasons.no_state == 480);
  CHECK(plain.serve(shared + document(4, 70)) == 480);

  FakeServer planned(kAmple, grid_policy(64));
  CHECK(planned.serve(shared + document(2, 50)) == 0);
  CHECK(planned.serve(shared + document(3, 60)) == 448);
}

TEST_CASE("A2: hits do not depend on where a grid falls") {
  for (std::int32_t shift = 0; shift <= 100; shift += 7) {
    FakeServer s(kAmple, branch_policy());
    std::int32_t hits = 0;
    for (std::uint64_t group = 0; group < 8; ++group) {
      const Tokens prefix = document(100 + group, 1450 + shift);
      for (std::uint64_t i = 0; i < 8; ++i) {
        hits += s.serve(prefix + document(1000 + group * 8 + i, 700)) == 1450 + shift ? 1 : 0;
      }
    }
    CHECK(hits == 8 * 6);  // the first of a group is new, the second shows the fork
  }
}

TEST_CASE("A4: 561 ids and then a suffix hit at the end of the first prompt") {
  FakeServer s(kAmple, branch_policy());
  const Tokens a = document(7, 561);
  CHECK(s.serve(a) == 0);
  CHECK(s.serve(a + document(8, 5)) == 560);
  CHECK(s.overlap == 561);
  CHECK(s.reasons.no_state == 1);
  CHECK(s.serve(a) == 560);  // an exact repeat computes its last token
  CHECK(s.reasons.last_token == 1);
  CHECK(s.reasons.no_state == 0);
}

TEST_CASE("A13: KV without a state is no hit") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 1000);
  s.serve(doc);
  auto result = s.lookup(Tokens(doc.begin(), doc.begin() + 500) + document(2, 10));
  const Lease& lease = std::get<Lease>(result);
  CHECK(lease.overlap == 500);
  CHECK(lease.kv_matched == 500);
  CHECK(lease.resume == 0);
  CHECK_FALSE(lease.resume_state);
  CHECK(lease.prefix_blocks.empty());
  CHECK(lease.reasons.no_state == 500);
  REQUIRE(lease.saves.size() == 2);
  CHECK(lease.saves[0].position == 500);
  CHECK(lease.saves[0].kind == StateKind::branch);
}

TEST_CASE("A14: an edited last message resumes with the state of what stayed") {
  FakeServer s(kAmple, branch_policy());
  const Tokens history = document(1, 333);
  s.serve(history + document(2, 40), document(3, 25));
  s.serve(history + document(4, 40), document(5, 25));  // edited: the fork is saved
  // FakePrefill computes on from the state and checks every slot: a zero state could not pass.
  CHECK(s.serve(history + document(6, 40)) == 333);
  CHECK(s.serve(history + document(2, 40) + document(3, 25) + document(7, 9)) == 333 + 40 + 25);
}

TEST_CASE("A15: the second turn of a chat computes only what is new") {
  FakeServer s(kAmple, branch_policy());
  Tokens chat = document(1, 50);
  for (std::uint64_t turn = 0; turn < 20; ++turn) {
    const Tokens answer = document(200 + turn, 31);
    const std::int32_t resume = s.serve(chat, answer);
    if (turn > 0) CHECK(resume == static_cast<std::int32_t>(chat.size()) - 13);
    chat = chat + answer + document(300 + turn, 13);
  }
}

TEST_CASE("A16: prompts under 64 tokens get a state") {
  for (std::int32_t n = 2; n <= 64; ++n) {
    FakeServer s(kAmple, branch_policy());
    const Tokens prompt = document(1, n);
    s.serve(prompt);
    CHECK(s.serve(prompt + document(2, 20)) == n - 1);
  }
}

TEST_CASE("A17: the only useful state of a conversation stays") {
  // Room for the running state and four cached ones: every turn publishes two and evicts older
  // ones.
  FakeServer s(5 * 1024 + 64 * 128, branch_policy());
  Tokens chat = document(1, 40);
  for (std::uint64_t turn = 0; turn < 30 && chat.size() < 700; ++turn) {
    const Tokens answer = document(200 + turn, 7);
    const std::int32_t resume = s.serve(chat, answer);
    if (turn > 0) CHECK(resume == static_cast<std::int32_t>(chat.size()) - 5);
    chat = chat + answer + document(300 + turn, 5);
  }
  CHECK(s.cache.stats().evicted > 0);
}

TEST_CASE("A30: side requests do not evict a chat that fits the bytes") {
  // 1024 bytes a state, 8 a token: the chat and the two side requests fit, however many entries
  // they are.
  FakeServer s(20 * 1024, branch_policy());
  const Tokens chat = document(1, 600);
  s.serve(chat, document(2, 20));
  for (std::uint64_t i = 0; i < 2; ++i) s.serve(document(50 + i, 100), document(60 + i, 10));
  CHECK(s.serve(chat + document(2, 20) + document(3, 30)) == 620);
  CHECK(s.cache.stats().evicted == 0);
}

TEST_CASE("A12, A21: why shared tokens are recomputed is counted") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 400);
  s.serve(doc);
  s.serve(doc + document(2, 10));
  s.evict_all();  // the paths stay remembered
  CHECK(s.cache.stats().states == 0);
  CHECK(s.cache.stats().kv_bytes == 0);
  CHECK(s.serve(doc + document(3, 10)) == 0);
  CHECK(s.overlap == 400);
  CHECK(s.kv_matched == 0);
  CHECK(s.reasons.evicted == 400);
  CHECK(s.reasons.no_state == 0);
  CHECK(s.serve(doc + document(3, 10)) == 409);
  CHECK(s.reasons.last_token == 1);
  CHECK(s.reasons.evicted == 0);
}

TEST_CASE("prompts of one token never hit and harm nothing") {
  FakeServer s(kAmple, branch_policy());
  for (int i = 0; i < 3; ++i) CHECK(s.serve({5}) == 0);
  CHECK(s.overlap == 1);
  CHECK(s.reasons.last_token == 1);
  CHECK(s.cache.stats().states == 0);
  CHECK(s.idle());
}

TEST_CASE("the policy sees the request as it is and its structure") {
  std::vector<RequestView> seen;
  std::vector<std::int32_t> structure;
  auto policy = std::make_unique<ScriptedPolicy>([&](const RequestView& q) {
    seen.push_back(q);
    structure.clear();
    for (const StructuralPoint& p : q.structure) structure.push_back(p.position);
    std::vector<Placement> out = ends_and_branches(q);
    out.push_back(at(q.resume, StateKind::planned));  // out of range, twice, unsorted
    out.push_back(at(q.length, StateKind::planned));
    out.push_back(at(q.length - 1, StateKind::planned));
    out.push_back(at(-3, StateKind::planned));
    return out;
  });
  FakeServer s(kAmple, std::move(policy));
  const Tokens a = document(1, 100);
  LookupRequest r;
  r.id = 1;
  r.tokens = seq(a);
  r.structure = {{10, StateKind::turn}, {40, StateKind::pinned}};
  {
    const auto result = s.cache.lookup(r);
    const Lease& lease = std::get<Lease>(result);
    REQUIRE(lease.saves.size() == 1);
    CHECK(lease.saves[0].position == 99);
    CHECK(lease.saves[0].kind == StateKind::prompt_end);
  }
  s.cache.end(1);
  CHECK(structure == std::vector<std::int32_t>{10, 40});
  CHECK(seen[0].length == 100);
  CHECK(seen[0].overlap == 0);
  CHECK_FALSE(seen[0].inside_edge);
  CHECK(seen[0].spare_room);

  s.serve(Tokens(a.begin(), a.begin() + 60) + document(2, 10));
  CHECK(seen[1].overlap == 60);
  CHECK(seen[1].inside_edge);  // the first to leave this path here
  s.serve(Tokens(a.begin(), a.begin() + 60) + document(3, 10));
  CHECK(seen[2].overlap == 60);
  CHECK_FALSE(seen[2].inside_edge);
  CHECK(seen[2].resume == 60);
  s.serve(a + document(4, 10));
  CHECK_FALSE(seen[3].inside_edge);  // a prompt ended here
  s.evict_one();
  s.serve(document(5, 10));
  CHECK_FALSE(seen[4].spare_room);

  const auto observed = s.cache.take_observations();
  REQUIRE(observed.size() == 5);
  CHECK(observed[2].length == 70);
  CHECK(observed[2].overlap == 60);
  CHECK(observed[2].resume == 60);
  CHECK(s.cache.take_observations().empty());
}

TEST_CASE("a request that opts out neither reads nor writes nor is observed") {
  FakeServer s(kAmple, branch_policy());
  const Tokens a = document(1, 100);
  s.serve(a);
  s.cache.take_observations();
  const PrefixStats before = s.cache.stats();
  LookupRequest r;
  r.id = 77;
  r.tokens = seq(a + document(2, 300));
  r.use_cache = false;
  {
    const auto result = s.cache.lookup(r);
    const Lease& lease = std::get<Lease>(result);
    CHECK_FALSE(lease.publish);
    CHECK(lease.resume == 0);
    CHECK(lease.overlap == 0);
    CHECK(lease.saves.empty());
    CHECK(lease.reservation.blocks_left() == 25);
    // Nobody waits for it either.
    CHECK(std::holds_alternative<Lease>(s.lookup(a + document(2, 300))));
  }
  s.cache.end(77);
  CHECK(s.cache.take_observations().size() == 1);
  CHECK(s.cache.stats().states == before.states);
}

TEST_CASE("a policy that keeps nothing keeps nothing, and overlaps are still known") {
  FakeServer s(kAmple, make_cache_policy("none").take());
  const Tokens a = document(1, 600);
  {
    auto first = s.lookup(a);
    CHECK_FALSE(std::get<Lease>(first).publish);
    CHECK(std::holds_alternative<Lease>(s.lookup(a)));  // no waiting
    FakePrefill run(std::move(std::get<Lease>(first)), seq(a));
    run.finish_prompt();
    s.cache.publish(run.hand_over());  // late or mistaken: harmless
  }
  CHECK(s.cache.stats().states == 0);
  CHECK(s.pools.usage().bytes_used == 0);
  CHECK(s.serve(a) == 0);
  CHECK(s.overlap == 600);
}

TEST_CASE("a position that has a state keeps the old one and late saves are harmless") {
  FakeServer s(kAmple, branch_policy());
  const Tokens a = document(1, 100);
  auto r1 = s.lookup(a), r2 = s.lookup(a);
  FakePrefill one(std::move(std::get<Lease>(r1)), seq(a));
  FakePrefill two(std::move(std::get<Lease>(r2)), seq(a));
  auto first = one.finish_prompt(), second = two.finish_prompt();
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  const std::byte* kept = first[0].state.data();
  s.cache.publish(first[0]);
  s.cache.publish(first[0]);
  s.cache.end(1);
  s.cache.end(2);
  s.cache.end(999);
  s.cache.publish(std::move(second[0]));
  CHECK(s.cache.stats().states == 1);
  CHECK(s.cache.stats().stored == 1);
  CHECK(s.cache.stats().duplicates == 2);
  const auto again = s.lookup(a);
  CHECK(std::get<Lease>(again).resume_state.data() == kept);
  s.cache.verify();
}

TEST_CASE("a state out of pools that were given up does not enter") {
  FakeServer s(kAmple, branch_policy());
  MemoryPools old(kFakeLayout, kAmple);
  Reservation r = old.reserve(1, 1).value();
  SavedState late{9, seq({1, 2, 3}), 3, StateKind::prompt_end, r.take_state(), {r.take_block()},
                  {}};
  s.cache.publish(late);
  CHECK(s.cache.stats().states == 0);
  Reservation own = s.pools.reserve(0, 1).value();
  const KvBlockRef theirs = late.blocks[0];
  late.blocks = {s.pools.reserve(1, 0)->take_block()};
  s.cache.publish(late);
  CHECK(s.cache.stats().states == 0);
  late.blocks = {theirs};
  late.state = own.take_state();
  s.cache.publish(late);
  CHECK(s.cache.stats().states == 0);
  late.blocks = {s.pools.reserve(1, 0)->take_block()};
  s.cache.publish(late);
  CHECK(s.cache.stats().states == 1);
}

TEST_CASE("where a prompt ended is remembered when its state is gone") {
  std::vector<bool> inside;
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>([&](const RequestView& q) {
                 inside.push_back(q.inside_edge);
                 return std::vector<Placement>{{q.length - 1, StateKind::prompt_end}};
               }));
  const Tokens a = document(1, 100);
  s.serve(a);
  s.serve(a + document(2, 50));
  s.evict_all();
  s.serve(a + document(3, 50));
  CHECK(s.overlap == 100);
  CHECK(inside == std::vector<bool>{false, false, false});
}
