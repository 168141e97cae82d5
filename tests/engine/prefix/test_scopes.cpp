// SPDX-License-Identifier: Apache-2.0
// Requests of one scope never see those of another.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"
#include "tests/support/random_prompts.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr std::uint64_t kAmple = 64 << 20;
const std::vector<std::string> kScopes = {"", "a", "b", std::string("a\0", 2)};

std::vector<Placement> ends_branches_and_halves(const RequestView& q) {
  auto out = ends_and_branches(q);
  out.push_back({q.length / 2, StateKind::planned});
  return out;
}

std::unique_ptr<FakeServer> make_server() {
  PrefixOptions options;
  options.share_wait_tokens = 40;
  return std::make_unique<FakeServer>(
      kAmple, std::make_unique<ScriptedPolicy>(ends_branches_and_halves), options);
}

struct Running {
  std::string scope;
  SequenceId id = 0;
  FakePrefill run;
  std::optional<FakePrefill> alone;  // in the cache of its scope
};

void publish_all(PrefixCache& cache, std::vector<SavedState> saved) {
  for (SavedState& state : saved) cache.publish(std::move(state));
}

}  // namespace

TEST_CASE("a prompt of one scope neither hits nor waits for the same prompt of another") {
  FakeServer s(kAmple, branch_policy());
  const Tokens doc = document(1, 600);
  LookupRequest r;
  r.tokens = seq(doc);
  for (const std::string& scope : kScopes) {
    r.scope = scope;
    ++r.id;
    auto result = s.cache.lookup(r);
    REQUIRE(std::holds_alternative<Lease>(result));  // those of other scopes are still running
    CHECK(std::get<Lease>(result).overlap == 0);
    FakePrefill run(std::move(std::get<Lease>(result)), r.tokens);
    publish_all(s.cache, run.advance(599));
    CHECK(s.cache.stats().states == static_cast<std::int64_t>(r.id));
  }
  for (const std::string& scope : kScopes) {
    r.scope = scope;
    ++r.id;
    CHECK(std::get<Lease>(s.cache.lookup(r)).resume == 599);
    s.cache.end(r.id);
  }
  r.scope = "c";
  CHECK(std::get<Lease>(s.cache.lookup(r)).overlap == 0);
  s.cache.verify();
}

TEST_CASE("one cache with scopes answers like one cache for each scope") {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    RandomPrompts random(seed);
    const auto server = make_server();
    FakeServer& all = *server;
    std::map<std::string, std::unique_ptr<FakeServer>> alone;
    for (const std::string& scope : kScopes) alone[scope] = make_server();
    std::vector<Running> running;
    std::int64_t hits = 0, waits = 0;
    for (int step = 0; step < 1500; ++step) {
      if (random.below(2) == 0 && running.size() < 8) {
        LookupRequest r;
        r.id = static_cast<SequenceId>(step) + 1;
        r.tokens = seq(random.next());
        r.scope = kScopes[static_cast<std::size_t>(random.below(kScopes.size()))];
        auto mixed = all.cache.lookup(r);
        auto single = alone.at(r.scope)->cache.lookup(r);
        REQUIRE(mixed.index() == single.index());
        if (auto* wait = std::get_if<ShareWait>(&mixed)) {
          REQUIRE(wait->leader == std::get<ShareWait>(single).leader);
          REQUIRE(wait->save.position == std::get<ShareWait>(single).save.position);
          ++waits;
          continue;
        }
        auto& lease = std::get<Lease>(mixed);
        auto& other = std::get<Lease>(single);
        REQUIRE(lease.overlap == other.overlap);
        REQUIRE(lease.kv_matched == other.kv_matched);
        REQUIRE(lease.resume == other.resume);
        REQUIRE(lease.saves.size() == other.saves.size());
        hits += lease.resume > 0 ? 1 : 0;
        running.push_back({r.scope, r.id, FakePrefill(std::move(lease), r.tokens),
                           FakePrefill(std::move(other), r.tokens)});
      } else if (!running.empty()) {
        const auto i = static_cast<std::size_t>(random.below(running.size()));
        Running& r = running[i];
        PrefixCache& own = alone.at(r.scope)->cache;
        const auto end = static_cast<std::int32_t>(r.run.tokens().size());
        const std::int32_t to = std::min(end, r.run.position() + 1 + random.below(200));
        publish_all(all.cache, r.run.advance(to));
        publish_all(own, r.alone->advance(to));
        if (to < end && random.below(4) != 0) continue;
        all.cache.end(r.id);
        own.end(r.id);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (step % 100 == 0) all.cache.verify();
    }
    CHECK(hits > 50);
    CHECK(waits > 5);
    std::int64_t states = 0, nodes = 0;
    for (const auto& [scope, one] : alone) {
      states += one->cache.stats().states;
      nodes += one->cache.stats().nodes;
    }
    CHECK(all.cache.stats().states == states);
    CHECK(all.cache.stats().nodes == nodes);
  }
}
