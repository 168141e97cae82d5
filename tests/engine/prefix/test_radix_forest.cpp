// SPDX-License-Identifier: Apache-2.0
// The forest and its mirror against lists of token vectors.
#include <algorithm>
#include <map>
#include <random>

#include "base/check.hpp"
#include "engine/prefix/radix_forest.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

std::int32_t naive_prefix(const Tokens& a, const Tokens& b) {
  std::int32_t n = 0;
  while (n < static_cast<std::int32_t>(std::min(a.size(), b.size())) &&
         a[static_cast<std::size_t>(n)] == b[static_cast<std::size_t>(n)]) {
    ++n;
  }
  return n;
}

// Few tokens and few lengths, so that forks, extensions and repeats are common.
class TokenSource {
 public:
  explicit TokenSource(std::uint32_t seed) : rng_(seed) {}
  std::int32_t below(std::size_t n) { return static_cast<std::int32_t>(rng_() % n); }

  Tokens next() {
    Tokens t;
    if (!past_.empty() && below(8) != 0) {
      t = past_[static_cast<std::size_t>(below(past_.size()))];
      const std::int32_t cut = below(4) == 0 ? 0 : below(t.size() + 1);
      if (below(3) != 0) t.resize(t.size() - static_cast<std::size_t>(cut));
      if (!t.empty() && below(6) == 0) t[static_cast<std::size_t>(below(t.size()))] ^= 1;
    }
    const std::int32_t more = below(5) == 0 ? 0 : below(70);
    for (std::int32_t i = 0; i < more; ++i) t.push_back(below(2));
    if (t.empty()) t.push_back(below(2));
    if (past_.size() < 200) {
      past_.push_back(t);
    } else {
      past_[static_cast<std::size_t>(below(past_.size()))] = t;
    }
    return t;
  }

 private:
  std::mt19937 rng_;
  std::vector<Tokens> past_;
};

constexpr ByteCosts kCosts{.state_bytes = kFakeLayout.state_bytes,
                           .kv_bytes_per_token = kFakeLayout.kv_block_bytes / 16,
                           .kv_block = 16};

std::vector<ForestNode*> with_claim(const RadixForest& forest, Claim claim) {
  std::vector<ForestNode*> found;
  for (PlanNode n = 0; n < forest.tree().slots(); ++n) {
    if (forest.tree()[n].used && forest.tree()[n].claim == claim) found.push_back(forest.node(n));
  }
  return found;
}

Tokens path_of(const ForestNode& node) {
  Tokens t;
  for (const ForestNode* n = &node; n != nullptr; n = n->parent) {
    t.insert(t.begin(), n->edge.begin(), n->edge.end());
  }
  return t;
}

std::vector<KvBlockRef> take_blocks(MemoryPools& pools, std::int32_t n) {
  Reservation r = pools.reserve(n, 0).value();
  std::vector<KvBlockRef> blocks;
  for (std::int32_t i = 0; i < n; ++i) blocks.push_back(r.take_block());
  return blocks;
}

}  // namespace

TEST_CASE("common prefixes end where a slow comparison says") {
  std::mt19937 rng(3);
  for (int i = 0; i < 3000; ++i) {
    Tokens a = document(1, static_cast<std::int32_t>(rng() % 300));
    Tokens b = document(1, static_cast<std::int32_t>(rng() % 300));
    if (!b.empty() && rng() % 4 != 0) b[rng() % b.size()] ^= 1 << (rng() % 31);
    CHECK(common_prefix(a, b) == naive_prefix(a, b));
  }
}

TEST_CASE("overlaps equal those of a list of token vectors") {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    TokenSource source(seed);
    RadixForest forest(kCosts);
    std::vector<Tokens> all;
    for (std::uint64_t tick = 1; tick <= 1500; ++tick) {
      const Tokens t = source.next();
      std::int32_t expected = 0;
      for (const Tokens& past : all) expected = std::max(expected, naive_prefix(past, t));
      REQUIRE(forest.match(t).overlap == expected);
      ForestNode* node = forest.insert(t, tick);
      REQUIRE(node->end == static_cast<std::int32_t>(t.size()));
      REQUIRE(path_of(*node) == t);
      all.push_back(t);
      if (tick % 100 == 0) forest.verify();
    }
    // A radix tree over n strings: at most one leaf and one fork each.
    CHECK(forest.nodes() <= 2 * static_cast<std::int64_t>(all.size()));
    forest.clear();
    forest.verify();
    CHECK(forest.nodes() == 0);
  }
}

TEST_CASE("bounds on nodes and tokens hold, and what was used last is remembered") {
  TokenSource source(9);
  RadixForest forest(kCosts);
  for (std::uint64_t tick = 1; tick <= 4000; ++tick) {
    const Tokens t = source.next();
    forest.insert(t, tick)->point = source.below(2) == 0;
    const auto max_nodes = static_cast<std::int64_t>(20 + source.below(30));
    forest.trim({.max_nodes = max_nodes, .max_tokens = 5000});
    REQUIRE(forest.nodes() <= max_nodes);
    REQUIRE(forest.tokens() <= 5000);
    if (t.size() < 300) REQUIRE(forest.match(t).overlap == static_cast<std::int32_t>(t.size()));
    if (tick % 50 == 0) forest.verify();
  }
  forest.trim({});
  CHECK(forest.nodes() == 0);
  CHECK(forest.tokens() == 0);
  forest.verify();
}

TEST_CASE("a place above an end is the one that its tokens lead to") {
  TokenSource source(21);
  RadixForest forest(kCosts);
  for (std::uint64_t tick = 1; tick <= 1500; ++tick) {
    const Tokens t = source.next();
    ForestNode* end = forest.insert(t, tick);
    const std::int32_t position = 1 + source.below(t.size());
    const Tokens path(t.begin(), t.begin() + position);
    ForestNode* place = forest.insert_above(*end, position, tick);
    REQUIRE(path_of(*place) == path);
    REQUIRE(forest.insert(path, tick) == place);
    const ForestMatch match = forest.match(t);
    REQUIRE(match.last == end);
    REQUIRE(match.last_serial == end->serial);
    if (tick % 100 == 0) forest.verify();
  }
}

TEST_CASE("a path is as recent as the last request that passed it, also when that is forgotten") {
  for (const bool merged : {false, true}) {
    RadixForest forest(kCosts);
    forest.insert(Tokens{1, 2}, 1)->point = true;
    forest.insert(Tokens{1, 2, 3, 4}, 1);
    ForestNode* passed = forest.insert(merged ? Tokens{1, 2, 3} : Tokens{1, 2, 3, 4}, 9);
    if (merged) {
      forest.set_pending(*passed, StateKind::branch);
      forest.drop_pending(*passed);  // merged with what is below it
    }
    ForestNode* other = forest.insert(Tokens{7, 8}, 5);
    forest.set_pending(*other, StateKind::branch);
    forest.trim({.max_nodes = 2, .max_tokens = 100});
    REQUIRE(forest.match(Tokens{1, 2, 3, 4}).overlap == 2);
    forest.drop_pending(*other);
    forest.trim({.max_nodes = 1, .max_tokens = 100});
    CHECK(forest.match(Tokens{1, 2}).overlap == 2);
    CHECK(forest.match(Tokens{7, 8}).overlap == 0);
    forest.verify();
  }
}

TEST_CASE(
    "claims pin their path, and dropping a state gives back at most the bytes it is charged") {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    MemoryPools pools(kFakeLayout, 16 << 20);
    TokenSource source(seed);
    RadixForest forest(kCosts);
    std::map<const ForestNode*, bool> extended;  // a sequence goes on in one way only
    const bool own_blocks = seed % 2 == 0;       // no block is another state's as well
    for (std::uint64_t tick = 1; tick <= 1200; ++tick) {
      const Tokens t = source.next();
      const auto states = with_claim(forest, Claim::stored);
      const auto pending = with_claim(forest, Claim::pending);
      const std::int32_t action = states.size() < 30 ? source.below(10) : 9;
      if (action < 5) {
        ForestNode* node = forest.insert(t, tick);
        if (!node->state) {
          // Half of them by the sequence that made the state above: it goes on in the same blocks.
          std::vector<KvBlockRef> blocks;
          const ForestNode* above = forest.match(t).resume;
          if (!own_blocks && above != nullptr && source.below(2) == 0 && !extended[above]) {
            extended[above] = true;
            blocks = forest.block_table(*above);
          }
          for (KvBlockRef& more : take_blocks(
                   pools, blocks_for(node->end) - static_cast<std::int32_t>(blocks.size()))) {
            blocks.push_back(std::move(more));
          }
          forest.set_state(*node, pools.reserve(0, 1)->take_state(), StateKind::planned, blocks);
          extended[node] = false;
        }
      } else if (action == 5) {
        ForestNode* node = forest.insert(t, tick);
        if (forest.claim(*node) == Claim::none) forest.set_pending(*node, StateKind::branch);
      } else if (action < 8) {
        forest.insert(t, tick)->point = source.below(2) == 0;
        forest.trim({.max_nodes = 400, .max_tokens = 1 << 20, .seen_since = tick - 1});
      } else if (action == 8 && !pending.empty()) {
        forest.drop_pending(*pending[static_cast<std::size_t>(source.below(pending.size()))]);
      } else if (!states.empty()) {
        ForestNode& gone = *states[static_cast<std::size_t>(source.below(states.size()))];
        const std::uint64_t charged = forest.tree().exclusive_bytes(gone.plan);
        const std::uint64_t before = pools.usage().bytes_used;
        const ForestFreed freed = forest.drop_state(gone);
        const std::uint64_t back = before - pools.usage().bytes_used;
        REQUIRE(static_cast<std::uint64_t>(freed.blocks) * kFakeLayout.kv_block_bytes +
                    static_cast<std::uint64_t>(freed.states) * kFakeLayout.state_bytes ==
                back);
        REQUIRE(back >= kFakeLayout.state_bytes);
        if (pending.empty()) REQUIRE(back <= charged);
        if (pending.empty() && own_blocks) REQUIRE(back == charged);
      }
      REQUIRE(forest.states() ==
              static_cast<std::int64_t>(with_claim(forest, Claim::stored).size()));
      if (pending.empty() && own_blocks && action != 5) {
        REQUIRE(forest.tree().bytes() == pools.usage().bytes_used);
      }
      if (tick % 40 == 0) {
        forest.verify();
        const ForestFreed unshared = forest.unshared();
        REQUIRE(unshared.blocks == forest.blocks());
        REQUIRE(unshared.states == forest.states());
        REQUIRE(static_cast<std::int64_t>(pools.usage().blocks_live) == forest.blocks());
      }
    }
    for (ForestNode* n : with_claim(forest, Claim::stored)) forest.drop_state(*n);
    for (ForestNode* n : with_claim(forest, Claim::pending)) forest.drop_pending(*n);
    forest.verify();
    CHECK(pools.usage().bytes_used == 0);
    CHECK(forest.tree().bytes() == 0);
  }
}

TEST_CASE("without claims only points and forks are nodes, and idle leaves are forgotten") {
  RadixForest forest(kCosts);
  const Tokens t = document(1, 100);
  const auto first = [&](std::size_t n) { return std::span(t).first(n); };
  forest.insert(t, 1)->point = true;
  ForestNode* half = forest.insert(first(50), 2);
  forest.set_pending(*half, StateKind::planned);
  CHECK(forest.nodes() == 2);
  forest.drop_pending(*half);
  CHECK(forest.nodes() == 1);

  half = forest.insert(first(50), 3);
  half->point = true;
  forest.set_pending(*half, StateKind::planned);
  forest.drop_pending(*half);
  CHECK(forest.nodes() == 2);
  const auto since = [&](std::uint64_t tick) {
    forest.trim({.max_nodes = 100, .max_tokens = 1000, .seen_since = tick});
    forest.verify();
    return forest.nodes();
  };
  CHECK(since(1) == 2);
  CHECK(since(2) == 1);  // the end was passed at 1 last
  CHECK(forest.match(t).overlap == 50);
  CHECK(since(3) == 1);
  forest.set_pending(*half, StateKind::planned);
  CHECK(since(100) == 1);
  forest.drop_pending(*half);
  CHECK(since(100) == 0);
  CHECK(forest.scopes() == 0);
}

TEST_CASE("a path of very many nodes neither overflows a stack nor slows a lookup much") {
  RadixForest forest(kCosts);
  const Tokens t = document(1, 20'000);
  for (std::size_t n = t.size(); n > 0; n -= 2) forest.insert(std::span(t).first(n), 1);
  CHECK(forest.nodes() == 10'000);
  CHECK(forest.match(t).overlap == 20'000);
  const std::uint64_t before = forest.work().nodes_visited;
  forest.match(t);
  CHECK(forest.work().nodes_visited - before == 10'000);
  forest.verify();
  forest.clear();
  CHECK(forest.nodes() == 0);
}

TEST_CASE("a lookup of 100,000 tokens looks at each once and visits only its own nodes") {
  RadixForest forest(kCosts);
  const Tokens shared = document(1, 99'000);
  for (std::uint64_t i = 0; i < 2000; ++i) forest.insert(shared + document(10 + i, 1000), i + 1);
  const Tokens prompt = shared + document(500, 1000);
  const ForestWork before = forest.work();
  const ForestMatch m = forest.match(prompt);
  CHECK(m.overlap == 100'000);
  CHECK(forest.work().nodes_visited - before.nodes_visited <= 3);
  CHECK(forest.work().tokens_compared - before.tokens_compared == 100'000);
}
