// SPDX-License-Identifier: Apache-2.0
// Places where running requests will save: what they are charged, and when they are let go.
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"
#include "tests/support/random_prompts.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr std::uint64_t kState = kFakeLayout.state_bytes, kBlock = kFakeLayout.kv_block_bytes;
constexpr std::uint64_t kAmple = 64 << 20;

std::vector<Placement> every_32(const RequestView& q) {
  std::vector<Placement> out;
  for (std::int32_t p = 32; p < q.length; p += 32) out.push_back({p, StateKind::planned});
  return out;
}

Lease lease_of(LookupResult result) {
  REQUIRE(std::holds_alternative<Lease>(result));
  return std::get<Lease>(std::move(result));
}

std::vector<std::int32_t> positions(const Lease& lease) {
  std::vector<std::int32_t> out;
  for (const PlannedSave& s : lease.saves) out.push_back(s.position);
  return out;
}

}  // namespace

TEST_CASE("an aborted request leaves no pending claim") {
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(every_32));
  {
    FakePrefill run(lease_of(s.lookup(document(1, 100))), seq(document(1, 100)));
    CHECK(s.cache.stats().pending == 3);
    CHECK(s.cache.stats().charged_bytes == 3 * kState + 6 * kBlock);
    for (SavedState& state : run.advance(40)) s.cache.publish(std::move(state));
    CHECK(s.cache.stats().pending == 2);
    CHECK(s.cache.stats().charged_bytes == 3 * kState + 6 * kBlock);
  }
  s.cache.end(1);
  CHECK(s.cache.stats().pending == 0);
  CHECK(s.cache.stats().charged_bytes == kState + 2 * kBlock);
  CHECK(s.cache.stats().nodes == 2);  // the state and the end
  CHECK(s.idle());
  s.cache.verify();
}

TEST_CASE(
    "what running requests will save counts against the budget and is not given up for others") {
  PrefixOptions options;
  options.cache_bytes = 5 * kState + 12 * kBlock;
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(every_32), options);
  const Lease first = lease_of(s.lookup(document(1, 100)));
  CHECK(positions(first) == std::vector<std::int32_t>{32, 64, 96});
  const Lease second = lease_of(s.lookup(document(2, 100)));
  CHECK(positions(second) == std::vector<std::int32_t>{32, 64});
  CHECK(s.cache.stats().skipped == 1);
  const Lease third = lease_of(s.lookup(document(3, 100)));
  CHECK(third.saves.empty());
  CHECK(s.cache.stats().pending == 5);
  s.cache.end(1);
  const Lease fourth = lease_of(s.lookup(document(4, 100)));
  CHECK(positions(fourth) == std::vector<std::int32_t>{32, 64, 96});
}

TEST_CASE("the policy hears of the budget: its own, or what the pools hold") {
  MemoryPools pools(kFakeLayout, 50'000);
  const auto told = [&](PrefixOptions options) {
    auto policy = std::make_unique<ScriptedPolicy>(every_32);
    const ScriptedPolicy& seen = *policy;
    const PrefixCache cache(pools, std::move(policy), options);
    return seen.budget;
  };
  PrefixOptions options;
  CHECK(told(options) == 50'000);
  options.costs = ByteCosts{};  // charges that say nothing of the pools
  CHECK(told(options) == 0);
  options.cache_bytes = 7000;
  CHECK(told(options) == 7000);
}

TEST_CASE("a place worth less than all that is cached is the one given up") {
  PrefixOptions options;
  options.cache_bytes = 3 * kState + 6 * kBlock;
  const auto value = [](const ValuedClaim& c) { return static_cast<double>(c.position); };
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(every_32, value), options);
  s.serve(document(1, 100));
  CHECK(s.cache.stats().states == 3);
  s.serve(document(2, 70));  // 32 of the old and the new go
  CHECK(s.cache.stats().states == 2);
  CHECK(s.cache.stats().skipped == 2);
  CHECK(s.cache.stats().evicted == 1);
  CHECK(s.serve(document(1, 100)) == 96);
}

TEST_CASE("charges stay within the budget through saves, answers, aborts and late saves") {
  std::uint64_t skipped = 0;
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    RandomPrompts random(seed);
    PrefixOptions options;
    options.cache_bytes = 12'000 + static_cast<std::uint64_t>(random.below(20'000));
    options.share_wait_tokens = 40;
    FakeServer s(
        kAmple, std::make_unique<ScriptedPolicy>([&](const RequestView& q) {
          auto out = ends_and_branches(q);
          out.push_back({1 + random.below(static_cast<std::size_t>(q.length)), StateKind::planned});
          return out;
        }),
        options);
    std::vector<std::pair<SequenceId, FakePrefill>> running;
    std::vector<SavedState> late;
    std::size_t waits = 0;
    for (int step = 0; step < 1500; ++step) {
      const std::int32_t action = random.below(10);
      if (action < 4 && running.size() < 6) {
        const Tokens t = random.next();
        auto result = s.lookup(t, 30);
        if (auto* lease = std::get_if<Lease>(&result)) {
          running.emplace_back(s.last_id, FakePrefill(std::move(*lease), seq(t)));
        } else {
          ++waits;
          if (random.below(2) == 0) s.cache.save_refused(std::get<ShareWait>(result).leader);
        }
      } else if (action < 9 && !running.empty()) {
        const auto i = static_cast<std::size_t>(random.below(running.size()));
        auto& [id, run] = running[i];
        const auto end = static_cast<std::int32_t>(run.tokens().size());
        for (SavedState& state :
             run.advance(std::min(end, run.position() + 1 + random.below(80)))) {
          if (random.below(4) == 0) {
            late.push_back(std::move(state));
          } else {
            s.cache.publish(std::move(state));
          }
        }
        if (random.below(3) == 0) {
          if (run.position() == end && random.below(2) == 0) {
            run.generate(random.tokens(1 + random.below(20)));
            run.finish_prompt();
            s.cache.publish(run.hand_over());
          }
          s.cache.end(id);
          running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        }
      } else if (action == 9) {
        for (SavedState& state : late) s.cache.publish(std::move(state));
        late.clear();
        if (random.below(20) == 0) s.cache.clear();
      }
      const PrefixStats now = s.cache.stats();
      REQUIRE(now.charged_bytes <= options.cache_bytes);
      REQUIRE(now.kv_bytes + now.state_bytes <= now.charged_bytes);
      if (step % 20 == 0) s.cache.verify();
    }
    CHECK(waits > 0);
    CHECK(s.cache.stats().evicted > 20);
    skipped += s.cache.stats().skipped;
    for (auto& [id, run] : running) s.cache.end(id);
    running.clear();
    late.clear();
    CHECK(s.cache.stats().pending == 0);
    CHECK(s.idle());
    s.cache.verify();
  }
  CHECK(skipped > 0);
}

TEST_CASE("a place where two will save is claimed until one has saved or both have gone") {
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(every_32));
  const Tokens t = document(1, 40);
  Lease one = lease_of(s.lookup(t)), two = lease_of(s.lookup(t));
  CHECK(positions(one) == positions(two));
  CHECK(s.cache.stats().pending == 1);
  s.cache.end(1);
  CHECK(s.cache.stats().pending == 1);
  s.cache.end(2);
  CHECK(s.cache.stats().pending == 0);

  Lease three = lease_of(s.lookup(t));
  const Lease four = lease_of(s.lookup(t));
  FakePrefill run(std::move(three), seq(t));
  for (SavedState& state : run.finish_prompt()) s.cache.publish(std::move(state));
  CHECK(s.cache.stats().pending == 0);
  CHECK(s.cache.stats().states == 1);
  s.evict_one();
  s.cache.end(3);
  s.cache.end(4);
  s.cache.verify();
}

TEST_CASE("a save asked of a leader is claimed until the leader saves, refuses or ends") {
  const Tokens doc = document(1, 600);
  for (const char how : {'s', 'r', 'e'}) {
    FakeServer s(kAmple, branch_policy());
    Lease leader = lease_of(s.lookup(doc + document(2, 9)));
    CHECK(s.cache.stats().pending == 1);
    auto wait = s.lookup(doc + document(3, 9));
    REQUIRE(std::holds_alternative<ShareWait>(wait));
    CHECK(s.cache.stats().pending == 2);
    CHECK(s.cache.stats().charged_bytes == 2 * kState + (38 + 1) * kBlock);
    if (how == 's') {
      leader.saves.insert(leader.saves.begin(), std::move(std::get<ShareWait>(wait).save));
      FakePrefill run(std::move(leader), seq(doc + document(2, 9)));
      for (SavedState& state : run.finish_prompt()) s.cache.publish(std::move(state));
    } else if (how == 'r') {
      s.cache.save_refused(1);
      CHECK(s.cache.stats().pending == 1);  // its own
    }
    s.cache.end(1);
    CHECK(s.cache.stats().pending == 0);
    CHECK(s.cache.stats().states == (how == 's' ? 2 : 0));
    s.cache.verify();
  }
}

TEST_CASE("a lookup under the id of one that was never used takes its place") {
  FakeServer s(kAmple, std::make_unique<ScriptedPolicy>(every_32));
  for (int i = 0; i < 2; ++i) {
    LookupRequest r;
    r.id = 5;
    r.tokens = seq(document(static_cast<std::uint64_t>(i), 100));
    CHECK(positions(lease_of(s.cache.lookup(r))).size() == 3);
    CHECK(s.cache.stats().pending == 3);
    s.cache.verify();
  }
  s.cache.end(5);
  CHECK(s.cache.stats().pending == 0);
}

TEST_CASE("nobody waits for a state that is there and not worth its restore") {
  FakeServer s(kAmple, branch_policy());
  const Tokens prompt = document(1, 400);
  s.serve(prompt);
  s.cache.learn_costs({.restore = 1000});  // longer than the prompt takes
  const Lease leader = lease_of(s.lookup(prompt));
  CHECK(leader.resume == 0);
  const Lease follower = lease_of(s.lookup(prompt));
  CHECK(follower.resume == 0);
  s.cache.verify();
  // The state at the end is as good to give up as any, and nobody else counts on it.
  s.evict_all();
  CHECK(s.cache.stats().states == 0);
  s.cache.end(leader.id);
  s.cache.end(follower.id);
  s.cache.verify();
}
