// SPDX-License-Identifier: Apache-2.0
// A state that does not fit the budget beside its own KV.
#include "engine/placement/policy_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

TEST_CASE("a prompt whose state cannot fit the budget pushes nothing out of it") {
  PrefixOptions options;
  options.cache_bytes = 20'000;
  options.costs = ByteCosts{.state_bytes = 1000, .kv_bytes_per_token = 100, .kv_block = 1};
  FakeServer s(1ull << 30, make_cache_policy("branch").take(), options);
  const Tokens kept = document(1, 100);
  s.serve(kept);
  REQUIRE(s.cache.stats().stored == 1);
  s.serve(document(2, 400));  // 1000 + 399 * 100 bytes
  CHECK(s.cache.stats().stored == 1);
  CHECK(s.cache.stats().evicted == 0);
  CHECK(s.cache.stats().charged_bytes == 1000 + 99 * 100);
}
