// SPDX-License-Identifier: Apache-2.0
// The whole cache against a list of token vectors: thousands of random requests, drops and
// evictions.
#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/placement/policy_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"
#include "tests/support/random_prompts.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

struct NaiveState {
  Tokens prefix;
  std::uint64_t last_used = 0;
  std::uint64_t made = 0;
};

std::int32_t shared(const Tokens& a, const Tokens& b) {
  return static_cast<std::int32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                   a.begin());
}

// Everything by linear search.
struct NaiveCache {
  std::vector<Tokens> remembered;
  std::vector<NaiveState> states;
  std::uint64_t tick = 0, made = 0;

  std::int32_t overlap(const Tokens& t) const {
    std::int32_t best = 0;
    for (const Tokens& r : remembered) best = std::max(best, shared(r, t));
    return best;
  }
  std::int32_t kv_matched(const Tokens& t) const {
    std::int32_t best = 0;
    for (const NaiveState& s : states) best = std::max(best, shared(s.prefix, t));
    return best;
  }
  NaiveState* resume(const Tokens& t) {
    NaiveState* best = nullptr;
    for (NaiveState& s : states) {
      if (s.prefix.size() < t.size() &&
          shared(s.prefix, t) == static_cast<std::int32_t>(s.prefix.size()) &&
          (best == nullptr || s.prefix.size() > best->prefix.size())) {
        best = &s;
      }
    }
    return best;
  }
  void publish(const Tokens& prefix) {
    remembered.push_back(prefix);
    for (const NaiveState& s : states) {
      if (s.prefix == prefix) return;
    }
    states.push_back({prefix, tick, ++made});
  }
};

struct Running {
  SequenceId id = 0;
  FakePrefill run;
};

std::vector<Placement> random_places(RandomPrompts& random, const RequestView& q) {
  std::vector<Placement> out = ends_and_branches(q);
  for (std::int32_t i = random.below(3); i > 0; --i) {
    out.push_back({random.below(static_cast<std::size_t>(q.length)), StateKind::planned});
  }
  return out;
}

}  // namespace

TEST_CASE("overlap, KV, resume point, contents and eviction order equal a naive cache's") {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    RandomPrompts random(seed);
    FakeServer s(64 << 20, std::make_unique<ScriptedPolicy>(
                               [&](const RequestView& q) { return random_places(random, q); }));
    NaiveCache naive;
    std::vector<Running> running;
    std::uint64_t hits = 0, evicted = 0;
    const auto publish = [&](std::vector<SavedState> saved) {
      for (SavedState& state : saved) {
        naive.publish(Tokens(state.tokens->begin(), state.tokens->begin() + state.position));
        s.cache.publish(std::move(state));
      }
    };
    for (int step = 0; step < 1500; ++step) {
      const std::int32_t action = random.below(12);
      if (action < 5 && running.size() < 5) {
        const Tokens t = random.next();
        LookupRequest request;
        request.id = static_cast<SequenceId>(step) + 1;
        request.tokens = seq(t);
        request.max_new = random.below(40);
        request.may_wait = false;
        ++naive.tick;
        NaiveState* expected = naive.resume(t);
        auto result = s.cache.lookup(request);
        REQUIRE(std::holds_alternative<Lease>(result));
        Lease& lease = std::get<Lease>(result);
        REQUIRE(lease.overlap == naive.overlap(t));
        REQUIRE(lease.kv_matched == naive.kv_matched(t));
        REQUIRE(lease.resume ==
                (expected == nullptr ? 0 : static_cast<std::int32_t>(expected->prefix.size())));
        REQUIRE(holds_prefix(lease, t));
        const RecomputeReasons& why = lease.reasons;
        REQUIRE(why.no_state + why.grain + why.last_token + why.evicted ==
                lease.overlap - lease.resume);
        REQUIRE(lease.reservation.blocks_left() ==
                blocks_for(static_cast<std::int32_t>(t.size()) + request.max_new) -
                    lease.resume / 16);
        if (expected != nullptr) {
          expected->last_used = naive.tick;
          ++hits;
        }
        naive.remembered.push_back(t);
        if (random.below(8) != 0) {  // else the client left before it started
          running.push_back({request.id, FakePrefill(std::move(lease), seq(t))});
        }
      } else if (action < 10 && !running.empty()) {
        const auto i = static_cast<std::size_t>(random.below(running.size()));
        FakePrefill& run = running[i].run;
        const auto end = static_cast<std::int32_t>(run.tokens().size());
        if (run.position() < end && random.below(3) != 0) {
          publish(run.advance(run.position() + 1 +
                              random.below(static_cast<std::size_t>(end - run.position()))));
        } else {
          if (run.position() == end && random.below(2) == 0) {
            const std::int32_t room = run.lease().reservation.blocks_left() * 16;
            run.generate(random.tokens(std::min(room, random.below(20))));
            run.finish_prompt();
            random.remember(run.tokens());
            std::vector<SavedState> answer;
            answer.push_back(run.hand_over());
            publish(std::move(answer));
          }
          s.cache.end(running[i].id);  // finished, or aborted where it was
          running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        }
      } else if (action == 10 && !naive.states.empty()) {
        // Nobody but running leases holds states, and FakePrefill lets them go at once: all can go.
        const auto least = std::min_element(
            naive.states.begin(), naive.states.end(), [](const NaiveState& a, const NaiveState& b) {
              return a.last_used != b.last_used ? a.last_used < b.last_used : a.made < b.made;
            });
        naive.states.erase(least);
        REQUIRE(s.evict_one() > 0);
        ++evicted;
      }
      if (step % 50 == 0) {
        s.cache.verify();
        REQUIRE(s.cache.stats().states == static_cast<std::int64_t>(naive.states.size()));
        REQUIRE(s.cache.stats().evicted == evicted);
      }
    }
    CHECK(hits > 100);
    for (const Running& r : running) s.cache.end(r.id);
    running.clear();
    CHECK(s.idle());
    s.cache.verify();
    s.cache.clear();
    s.cache.verify();
    CHECK(s.pools.usage().bytes_used == 0);
    CHECK(s.cache.stats().states == 0);
  }
}

TEST_CASE("under pressure and tight node bounds every lease still holds its prefix") {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    RandomPrompts random(seed * 77);
    const std::uint64_t budget = 20'000 + static_cast<std::uint64_t>(random.below(40'000));
    PrefixOptions options;
    options.max_nodes = 5 + random.below(60);
    options.max_tokens = 2000;
    options.share_wait_tokens = 64;
    FakeServer s(budget, std::make_unique<ScriptedPolicy>([&](const RequestView& q) {
                   return random_places(random, q);
                 }),
                 options);
    std::vector<Running> running;
    std::vector<PlannedSave> asked;
    std::vector<Reservation> extended;
    std::uint64_t leases = 0, hits = 0, full = 0, waits = 0;
    for (int step = 0; step < 2500; ++step) {
      const std::int32_t action = random.below(10);
      if (action < 4) {
        const Tokens t = random.next();
        LookupRequest request;
        request.id = static_cast<SequenceId>(step) + 1;
        request.tokens = seq(t);
        request.max_new = random.below(300);
        auto result = s.cache.lookup(request);
        if (auto* lease = std::get_if<Lease>(&result)) {
          ++leases;
          hits += lease->resume > 0 ? 1 : 0;
          REQUIRE(lease->resume <=
                  std::min(lease->overlap, static_cast<std::int32_t>(t.size()) - 1));
          REQUIRE(lease->kv_matched >= lease->resume);
          REQUIRE(holds_prefix(*lease, t));
          running.push_back({request.id, FakePrefill(std::move(*lease), seq(t))});
        } else if (auto* wait = std::get_if<ShareWait>(&result)) {
          ++waits;
          if (random.below(2) == 0) asked.push_back(std::move(wait->save));  // held by nobody else
        } else {
          ++full;
          const NoRoom& no = std::get<NoRoom>(result);
          REQUIRE(no.ever == s.pools.could_ever_fit(blocks_for(static_cast<std::int32_t>(t.size()) +
                                                               std::min(request.max_new, 256)),
                                                    1));
        }
      } else if (action < 9 && !running.empty()) {
        const auto i = static_cast<std::size_t>(random.below(running.size()));
        FakePrefill& run = running[i].run;
        for (SavedState& state : run.finish_prompt()) s.cache.publish(std::move(state));
        if (random.below(3) != 0) {
          s.cache.end(running[i].id);
          running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        }
      } else if (action == 9) {
        if (random.below(4) == 0) s.evict_one();
        if (random.below(4) == 0) extended.clear();
        if (auto more = s.cache.extend(random.below(4))) extended.push_back(std::move(*more));
        asked.clear();
      }
      const PoolUsage u = s.pools.usage();
      REQUIRE(u.bytes_used <= u.bytes_budget);
      if (step % 20 == 0) s.cache.verify();
    }
    CHECK(leases > 100);
    CHECK(hits > 10);
    CHECK(full + waits > 0);
    running.clear();
    asked.clear();
    extended.clear();
    CHECK(s.idle());
    s.cache.clear();
    CHECK(s.pools.usage().bytes_used == 0);
  }
}

TEST_CASE("every policy resumes exactly and stays within its budget") {
  for (const char* spelling : {"none", "last", "branch", "balanced:3", "dp:4", "dp:4+branch"}) {
    RandomPrompts random(11);
    FakeServer s(60'000, make_cache_policy(spelling).take());
    std::int32_t resumed = 0;
    for (int i = 0; i < 600; ++i) {
      resumed += s.serve(random.next(), random.tokens(random.below(20)));  // checks every slot
      REQUIRE(s.idle());
    }
    s.cache.verify();
    CHECK((resumed > 0) == (spelling != std::string_view("none")));
    CHECK((s.cache.stats().evicted > 0) == (spelling != std::string_view("none")));
  }
}
