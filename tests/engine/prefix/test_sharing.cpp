// SPDX-License-Identifier: Apache-2.0
// Requests that wait for a running one with the same prefix (architecture, decision 3).
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr std::uint64_t kAmple = 64 << 20;

Lease lease_of(LookupResult result) {
  REQUIRE(std::holds_alternative<Lease>(result));
  return std::get<Lease>(std::move(result));
}
ShareWait wait_of(LookupResult result) {
  REQUIRE(std::holds_alternative<ShareWait>(result));
  return std::get<ShareWait>(std::move(result));
}
LookupRequest ask(SequenceId id, const Tokens& t) {
  LookupRequest r;
  r.id = id;
  r.tokens = seq(t);
  r.max_new = 4;
  return r;
}

}  // namespace

TEST_CASE("a question on a document that is being read waits for the fork and resumes there") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 1000);
  const Tokens first = doc + document(2, 20), second = doc + document(3, 30);
  Lease lease = lease_of(s.cache.lookup(ask(1, first)));

  ShareWait wait = wait_of(s.cache.lookup(ask(2, second)));
  CHECK(wait.leader == 1);
  CHECK(wait.save.position == 1000);
  CHECK(wait.save.kind == StateKind::branch);
  REQUIRE(wait.save.state);
  // A third one waits for the same save and needs no second slot.
  const ShareWait third = wait_of(s.cache.lookup(ask(3, doc + document(4, 5))));
  CHECK(third.leader == 1);
  CHECK(third.save.position == 1000);
  CHECK_FALSE(third.save.state);

  lease.saves.insert(lease.saves.begin(), std::move(wait.save));
  FakePrefill run(std::move(lease), seq(first));
  for (SavedState& state : run.advance(1010)) s.cache.publish(std::move(state));
  for (SequenceId id : {2, 3}) {
    Lease follower = lease_of(s.cache.lookup(ask(id, id == 2 ? second : doc + document(4, 5))));
    CHECK(follower.resume == 1000);
    FakePrefill(std::move(follower), seq(id == 2 ? second : doc + document(4, 5))).finish_prompt();
    s.cache.end(id);
  }
}

TEST_CASE("several choices of one prompt wait for its last token but one") {
  FakeServer s(kAmple, branch_policy());
  const Tokens prompt = document(1, 400);
  Lease leader = lease_of(s.cache.lookup(ask(1, prompt)));
  for (SequenceId id = 2; id < 6; ++id) {
    const ShareWait wait = wait_of(s.cache.lookup(ask(id, prompt)));
    CHECK(wait.save.position == 399);
    CHECK_FALSE(wait.save.state);  // the leader saves its prompt's end as it is
  }
}

TEST_CASE("an overlap too small to wait for is not waited for") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 600);
  const Lease leader = lease_of(s.cache.lookup(ask(1, doc)));
  const Tokens close(doc.begin(), doc.begin() + 255);
  lease_of(s.cache.lookup(ask(2, close + document(2, 50))));
  s.cache.end(2);
  const Tokens enough(doc.begin(), doc.begin() + 256);
  CHECK(wait_of(s.cache.lookup(ask(3, enough + document(3, 50)))).save.position == 256);
  LookupRequest hasty = ask(4, enough + document(3, 50));
  hasty.may_wait = false;
  lease_of(s.cache.lookup(hasty));
}

TEST_CASE("what counts is the overlap beyond the best own state") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 500);
  s.serve(doc);  // a state at 499
  const Tokens longer = doc + document(2, 300);
  const Lease leader = lease_of(s.cache.lookup(ask(50, longer + document(3, 10))));
  CHECK(leader.resume == 499);
  // 749 is 250 tokens beyond the state: it runs. 800 is 301 beyond: it waits.
  const Tokens near(longer.begin(), longer.begin() + 749);
  lease_of(s.cache.lookup(ask(51, near + document(4, 10))));
  CHECK(wait_of(s.cache.lookup(ask(52, longer + document(5, 10)))).leader == 50);
}

TEST_CASE("a leader that ended, or has passed the place, is not waited for") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 600);
  const Tokens first = doc + document(2, 100);
  {
    const Lease lease = lease_of(s.cache.lookup(ask(1, first)));
    CHECK(wait_of(s.cache.lookup(ask(2, doc + document(3, 9)))).leader == 1);
    s.cache.end(1);
  }
  // A cancelled leader hands over: the first to come back leads, the next one waits for it.
  Lease second = lease_of(s.cache.lookup(ask(2, doc + document(3, 9))));
  CHECK(wait_of(s.cache.lookup(ask(3, doc + document(4, 9)))).leader == 2);
  s.cache.end(3);

  FakePrefill run(std::move(second), seq(doc + document(3, 9)));
  for (SavedState& state : run.finish_prompt()) s.cache.publish(std::move(state));
  // Its end was published: 400 is behind it, and nothing was saved there.
  const Tokens part(doc.begin(), doc.begin() + 400);
  CHECK(lease_of(s.cache.lookup(ask(4, part + document(5, 9)))).resume == 0);
}

TEST_CASE("nobody waits twice for the same leader") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 600);
  const Lease leader = lease_of(s.cache.lookup(ask(1, doc + document(2, 9))));
  CHECK(wait_of(s.cache.lookup(ask(2, doc + document(3, 9)))).leader == 1);
  CHECK(lease_of(s.cache.lookup(ask(2, doc + document(3, 9)))).resume == 0);
}

TEST_CASE("a leader that refused a save is not waited for by those who come later") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 600);
  const Lease leader = lease_of(s.cache.lookup(ask(1, doc + document(2, 9))));
  CHECK(wait_of(s.cache.lookup(ask(2, doc + document(3, 9)))).leader == 1);
  s.cache.save_refused(1);
  s.cache.save_refused(77);  // unknown: nothing happens
  const Lease second = lease_of(s.cache.lookup(ask(3, doc + document(4, 9))));
  CHECK(second.resume == 0);
  // The first to come back waits for whoever leads now.
  CHECK(wait_of(s.cache.lookup(ask(2, doc + document(3, 9)))).leader == 3);
}

TEST_CASE("the oldest of those that share the most leads") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 900);
  LookupRequest r = ask(7, doc + document(2, 9));
  const Lease a = lease_of(s.cache.lookup(r));
  r = ask(5, doc + document(3, 9));
  r.may_wait = false;
  const Lease b = lease_of(s.cache.lookup(r));
  r = ask(3, Tokens(doc.begin(), doc.begin() + 500) + document(4, 9));
  r.may_wait = false;
  const Lease c = lease_of(s.cache.lookup(r));
  CHECK(wait_of(s.cache.lookup(ask(9, doc + document(5, 9)))).leader == 5);
}

TEST_CASE("a fork that is worth less than all that is cached gets no slot, and nobody waits") {
  const auto value = [](const ValuedClaim& c) { return c.kind == StateKind::branch ? 0.0 : 1.0; };
  FakeServer s(64 * 1024, std::make_unique<ScriptedPolicy>(ends_and_branches, value));
  const Tokens doc = document(1, 600);
  const Lease leader = lease_of(s.cache.lookup(ask(500, doc + document(2, 9))));
  for (std::uint64_t i = 0; i < 100; ++i) s.serve(document(100 + i, 20));
  const PrefixStats full = s.cache.stats();
  CHECK(full.skipped > 0);
  const PoolUsage u = s.pools.usage();
  const auto blocks = static_cast<std::int32_t>((u.bytes_budget - u.bytes_used) / 128);
  const Reservation rest = s.pools.reserve(blocks, 0).value();
  const Lease follower = lease_of(s.cache.lookup(ask(501, doc + document(3, 9))));
  CHECK(follower.resume == 0);
  CHECK(s.cache.stats().evicted > full.evicted);  // running comes first, saving does not
}

TEST_CASE(
    "a fork whose state could never fit the budget is not waited for and pushes nothing out") {
  PrefixOptions options;
  options.cache_bytes = 20'000;
  options.costs = ByteCosts{.state_bytes = 1000, .kv_bytes_per_token = 20, .kv_block = 1};
  FakeServer s(kAmple, branch_policy(), options);
  for (std::uint64_t i = 0; i < 5; ++i) s.serve(document(50 + i, 100));
  const PrefixStats kept = s.cache.stats();
  REQUIRE(kept.states == 5);
  const Tokens doc = document(1, 1000);  // 1000 + 1000 * 20 bytes
  const Lease leader = lease_of(s.cache.lookup(ask(100, doc + document(2, 9))));
  const Lease follower = lease_of(s.cache.lookup(ask(101, doc + document(3, 9))));
  CHECK(follower.resume == 0);
  CHECK(s.cache.stats().evicted == kept.evicted);
  CHECK(s.cache.stats().states == 5);
  s.cache.end(100);
  s.cache.end(101);
  // One that fits is.
  const Tokens shorter(doc.begin(), doc.begin() + 900);
  const Lease second = lease_of(s.cache.lookup(ask(102, shorter + document(2, 9))));
  CHECK(wait_of(s.cache.lookup(ask(103, shorter + document(3, 9)))).save.position == 900);
}

TEST_CASE("a fork so near that copying its state takes longer than computing is not waited for") {
  FakeServer s(kAmple, branch_policy());
  s.cache.learn_costs({.prefill = {.a = 1, .b = 0}, .write = 0, .restore = 700});
  const Tokens doc = document(1, 1000), near(doc.begin(), doc.begin() + 700);
  const Lease leader = lease_of(s.cache.lookup(ask(1, doc + document(2, 9))));
  lease_of(s.cache.lookup(ask(2, near + document(3, 9))));
  s.cache.end(2);
  CHECK(wait_of(s.cache.lookup(ask(3, doc + document(4, 9)))).save.position == 1000);
}
