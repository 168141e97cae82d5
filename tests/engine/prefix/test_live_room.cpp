// SPDX-License-Identifier: Apache-2.0
// Room for running work is made by the same choice as room under a budget.
#include <algorithm>
#include <memory>

#include "engine/placement/forest_policy.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"
#include "tests/support/random_prompts.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr std::uint64_t kState = kFakeLayout.state_bytes, kBlock = kFakeLayout.kv_block_bytes;

// Tokens a tick that are predicted to be recomputed.
double predicted_cost(const PrefixCache& cache) {
  const PlanSnapshot snapshot = cache.snapshot();
  std::vector<std::int32_t> near(snapshot.nodes.size());
  double cost = 0;
  for (std::size_t i = 0; i < near.size(); ++i) {
    const PlanSnapshot::Node& n = snapshot.nodes[i];
    near[i] = n.parent < 0 ? 0 : near[static_cast<std::size_t>(n.parent)];
    if (n.claim != Claim::none) near[i] = n.depth;
    cost += n.rate * (n.depth - near[i]);
  }
  return cost;
}

// Serves the same prompts in ample memory, then takes what is free and half of what is cached.
double cost_after_running_work(std::uint32_t seed, std::int64_t exact_below) {
  ForestOptions options;
  options.exact_below = exact_below;
  options.interior_spare = 1;  // few enough to be solved for
  options.byte_worth = 0;      // what is left now counts, not what free bytes save later
  FakeServer s(1 << 20, std::make_unique<ForestPolicy>(options));
  RandomPrompts random(seed);
  for (int i = 0; i < 14; ++i) s.serve(random.next());
  REQUIRE(s.cache.stats().states > 4);
  REQUIRE(s.cache.stats().states <= 64);
  const PoolUsage usage = s.pools.usage();
  const std::uint64_t wanted =
      usage.bytes_budget - usage.bytes_used + s.cache.stats().charged_bytes / 2;
  const auto taken = s.cache.extend(static_cast<std::int32_t>(wanted / kBlock));
  REQUIRE(taken);
  s.cache.verify();
  return predicted_cost(s.cache);
}

}  // namespace

TEST_CASE("before running work takes from the cache the policy hears what has to fit beside it") {
  auto policy = std::make_unique<ScriptedPolicy>(ends_and_branches);
  ScriptedPolicy& seen = *policy;
  FakeServer s(8 * kState + 40 * kBlock, std::move(policy));
  for (std::uint64_t name = 1; name <= 3; ++name) s.serve(document(name, 96));
  CHECK(seen.told_to_fit.empty());
  const std::uint64_t held = s.cache.stats().charged_bytes;
  const PoolUsage usage = s.pools.usage();
  const std::uint64_t free = usage.bytes_budget - usage.bytes_used;
  const auto blocks = static_cast<std::int32_t>(free / kBlock) + 4;
  REQUIRE(s.cache.extend(blocks, 1));
  REQUIRE_FALSE(seen.told_to_fit.empty());
  const std::uint64_t wanted = static_cast<std::uint64_t>(blocks) * kBlock + kState;
  CHECK(seen.told_to_fit[0].held == held);
  CHECK(seen.told_to_fit[0].bytes == held - (wanted - free));
  CHECK(s.cache.stats().charged_bytes <= seen.told_to_fit[0].bytes);
}

TEST_CASE("before a request's own places take from the cache the policy hears of the pools' lack") {
  auto policy = std::make_unique<ScriptedPolicy>(ends_and_branches);
  ScriptedPolicy& seen = *policy;
  // Two prompts' ends, and a third running with its KV but without a slot.
  FakeServer s(3 * kState + 19 * kBlock, std::move(policy));
  s.serve(document(1, 96));
  s.serve(document(2, 96));
  const auto result = s.lookup(document(3, 96), 0);
  REQUIRE(std::holds_alternative<Lease>(result));
  REQUIRE(seen.told_to_fit.size() == 1);
  const auto& fit = seen.told_to_fit[0];
  const std::uint64_t free = 19 * kBlock - 3 * 6 * kBlock;
  CHECK(fit.held - fit.bytes == kState - free);
}

TEST_CASE("under a byte budget the policy hears the budget") {
  auto policy = std::make_unique<ScriptedPolicy>(ends_and_branches);
  ScriptedPolicy& seen = *policy;
  PrefixOptions options;
  options.cache_bytes = 2 * kState + 12 * kBlock;
  FakeServer s(1 << 20, std::move(policy), options);
  for (std::uint64_t name = 1; name <= 4; ++name) s.serve(document(name, 96));
  REQUIRE_FALSE(seen.told_to_fit.empty());
  for (const auto& fit : seen.told_to_fit) CHECK(fit.bytes == options.cache_bytes);
}

TEST_CASE("of few claims running work leaves the ones that the best plan keeps") {
  int better = 0, worse = 0;
  double exact = 0, listed = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const double solved = cost_after_running_work(seed, 64);
    const double greedy = cost_after_running_work(seed, 0);
    exact += solved;
    listed += greedy;
    better += solved < greedy * (1 - 1e-9);
    worse += solved > greedy * (1 + 1e-9);
  }
  CAPTURE(better, worse, exact, listed);
  CHECK(better >= 10);
  CHECK(worse <= better / 2);
  CHECK(exact < 0.97 * listed);
}
