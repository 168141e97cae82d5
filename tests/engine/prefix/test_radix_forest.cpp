// SPDX-License-Identifier: Apache-2.0
// The forest and the eviction order against lists of token vectors.
#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "base/check.hpp"
#include "engine/prefix/radix_forest.hpp"
#include "engine/prefix/state_order.hpp"
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

std::vector<ForestNode*> states_of(const RadixForest& forest) {
  std::vector<ForestNode*> found, open;
  for (const auto& c : forest.root().children) open.push_back(c.node);
  while (!open.empty()) {
    ForestNode* n = open.back();
    open.pop_back();
    if (n->state) found.push_back(n);
    for (const auto& c : n->children) open.push_back(c.node);
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
    RadixForest forest;
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
  RadixForest forest;
  for (std::uint64_t tick = 1; tick <= 4000; ++tick) {
    const Tokens t = source.next();
    forest.insert(t, tick)->prompt_end = source.below(2) == 0;
    const auto max_nodes = static_cast<std::int64_t>(20 + source.below(30));
    forest.trim(max_nodes, 5000);
    REQUIRE(forest.nodes() <= max_nodes);
    REQUIRE(forest.tokens() <= 5000);
    if (t.size() < 300) REQUIRE(forest.match(t).overlap == static_cast<std::int32_t>(t.size()));
    if (tick % 50 == 0) forest.verify();
  }
  forest.trim(0, 0);
  CHECK(forest.nodes() == 0);
  CHECK(forest.tokens() == 0);
  forest.verify();
}

TEST_CASE(
    "states pin their path, and dropping them gives back exactly the bytes of the candidate") {
  const auto by_use = [](const Candidate& c) { return static_cast<double>(c.last_used); };
  const auto by_density = [](const Candidate& c) {
    return static_cast<double>(c.gap) / static_cast<double>(c.bytes);
  };
  const auto by_depth = [](const Candidate& c) { return -static_cast<double>(c.position); };
  const std::vector<ScriptedPolicy::Value> rules = {by_use, by_density, by_depth};
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    MemoryPools pools(kFakeLayout, 16 << 20);
    TokenSource source(seed);
    ScriptedPolicy policy({}, rules[seed % rules.size()]);
    RadixForest forest;
    StateOrder order(forest, policy, kFakeLayout);
    std::uint64_t made = 0;
    std::set<std::uint64_t> extended;  // a sequence goes on in one way only
    for (std::uint64_t tick = 1; tick <= 1200; ++tick) {
      const Tokens t = source.next();
      // Few enough states that none has more neighbours than are renewed.
      const std::int32_t action = order.size() < 30 ? source.below(10) : 9;
      if (action < 6) {
        ForestNode* node = forest.insert(t, tick);
        if (!node->state) {
          // Half of them by the sequence that made the state above: it goes on in the same blocks.
          std::vector<KvBlockRef> blocks;
          const ForestNode* above = forest.match(t).resume;
          if (above != nullptr && source.below(2) == 0 && extended.insert(above->made).second) {
            blocks = forest.block_table(*above);
          }
          for (KvBlockRef& more : take_blocks(
                   pools, blocks_for(node->end) - static_cast<std::int32_t>(blocks.size()))) {
            blocks.push_back(std::move(more));
          }
          forest.set_state(*node, pools.reserve(0, 1)->take_state(), blocks);
          node->last_used = tick;
          node->made = ++made;
          order.add(*node);
          for (ForestNode* n : order.neighbours(*node)) order.renew(*n);
        }
      } else if (action < 8) {
        forest.insert(t, tick);
        forest.trim(400, 1 << 20);
      } else if (ForestNode* hit = forest.match(t).resume; hit != nullptr && action == 8) {
        hit->last_used = tick;
        order.renew(*hit);
      } else if (ForestNode* least = order.least(); least != nullptr) {
        // The order is the policy's, computed afresh for every state.
        for (ForestNode* n : states_of(forest)) {
          const double value = order.value(order.candidate(*n));
          REQUIRE(value == n->value);
          REQUIRE((least->value < value || (least->value == value && least->made <= n->made)));
        }
        const Candidate c = order.candidate(*least);
        const std::uint64_t before = pools.usage().bytes_used;
        const auto neighbours = order.neighbours(*least);
        order.remove(*least);
        const ForestFreed freed = forest.drop_state(*least);
        for (ForestNode* n : neighbours) order.renew(*n);
        REQUIRE(before - pools.usage().bytes_used == c.bytes);
        REQUIRE(static_cast<std::uint64_t>(freed.blocks) * kFakeLayout.kv_block_bytes +
                    static_cast<std::uint64_t>(freed.states) * kFakeLayout.state_bytes ==
                c.bytes);
      }
      if (tick % 40 == 0) {
        forest.verify();
        REQUIRE(order.size() == states_of(forest).size());
        REQUIRE(forest.unshared_blocks() == forest.blocks());
        REQUIRE(static_cast<std::int64_t>(pools.usage().blocks_live) == forest.blocks());
      }
    }
    while (ForestNode* least = order.least()) {
      order.remove(*least);
      forest.drop_state(*least);
    }
    forest.verify();
    CHECK(pools.usage().bytes_used == 0);
  }
}

TEST_CASE("a value that changes behind the order's back is found when it is up") {
  MemoryPools pools(kFakeLayout, 1 << 20);
  double bonus = 0;
  ScriptedPolicy policy({},
                        [&](const Candidate& c) { return c.position == 3 ? bonus : c.position; });
  RadixForest forest;
  StateOrder order(forest, policy, kFakeLayout);
  for (std::int32_t n = 1; n <= 5; ++n) {
    ForestNode* node = forest.insert(document(static_cast<std::uint64_t>(n), n), 1);
    forest.set_state(*node, pools.reserve(0, 1)->take_state(), take_blocks(pools, 1));
    node->made = static_cast<std::uint64_t>(n);
    order.add(*node);
  }
  CHECK(order.least()->end == 3);
  bonus = 100;
  CHECK(order.least()->end == 1);
  const StateRef use = order.least()->state;
  CHECK(order.least()->end == 2);
  CHECK(order.unshared_states() == 4);
  bonus = std::numeric_limits<double>::quiet_NaN();  // worthless, not undefined
  order.renew_all();
  CHECK(order.least()->end == 3);
}

TEST_CASE("a path of very many nodes neither overflows a stack nor slows a lookup much") {
  RadixForest forest;
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
  RadixForest forest;
  const Tokens shared = document(1, 99'000);
  for (std::uint64_t i = 0; i < 2000; ++i) forest.insert(shared + document(10 + i, 1000), i + 1);
  const Tokens prompt = shared + document(500, 1000);
  const ForestWork before = forest.work();
  const ForestMatch m = forest.match(prompt);
  CHECK(m.overlap == 100'000);
  CHECK(forest.work().nodes_visited - before.nodes_visited <= 3);
  CHECK(forest.work().tokens_compared - before.tokens_compared == 100'000);
}
