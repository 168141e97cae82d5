// SPDX-License-Identifier: Apache-2.0
// The prefix cache decides what the plan tree alone decides: a trace through both.
#include <memory>

#include "engine/simulate/shape_replay.hpp"
#include "engine/simulate/trace.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_prefill.hpp"

using namespace cairn;
using namespace cairn::engine;
using namespace cairn::tests;

namespace {

constexpr ByteCosts kByToken{.state_bytes = 19'500'000, .kv_bytes_per_token = 12'288};

// Branches, ends and thirds; what saves least by byte goes first, ties by depth.
std::unique_ptr<ScriptedPolicy> policy() {
  const auto place = [](const RequestView& q) {
    auto out = ends_and_branches(q);
    if (q.inside_edge || q.spare_room) out.push_back({q.length / 3, StateKind::planned});
    return out;
  };
  const auto value = [](const ValuedClaim& c) {
    return static_cast<double>(c.last_used) * 1e-3 +
           static_cast<double>(c.gap) * 1e6 / static_cast<double>(c.bytes);
  };
  return std::make_unique<ScriptedPolicy>(place, value);
}

}  // namespace

TEST_CASE("a trace through the cache resumes, stores and drops as it does on the plan tree") {
  const auto trace =
      read_trace(std::string(CAIRN_SOURCE_DIR) + "/bench/traces/xquad_en_live20.csv.gz");
  for (const std::uint64_t budget : {1'000'000'000ull, 4'000'000'000ull}) {
    const auto shape_policy = policy();
    ShapeReplay shape(*shape_policy, kByToken, budget);
    PrefixOptions options;
    options.cache_bytes = budget;
    options.costs = kByToken;
    FakeServer server(256 << 20, policy(), options);
    std::int64_t recomputed = 0;
    for (std::size_t i = 0; i < trace->size(); ++i) {
      const TraceRequest& request = (*trace)[i];
      const std::int32_t resume = server.serve(*trace->tokens(i));
      REQUIRE(server.overlap == request.overlap);
      recomputed += std::min(request.overlap, request.length - 1) - resume;
      shape.request({request.length, request.overlap, request.parent});
      const ReplayResult& expected = shape.result();
      const PrefixStats now = server.cache.stats();
      INFO("request " << i << " of " << budget);
      REQUIRE(recomputed == expected.recomputed);
      REQUIRE(static_cast<std::int64_t>(now.stored) == expected.states_written);
      REQUIRE(static_cast<std::int64_t>(now.evicted) == expected.evicted);
      REQUIRE(static_cast<std::int64_t>(now.skipped) == expected.refused);
      REQUIRE(now.charged_bytes == expected.bytes);
    }
    CHECK(shape.result().evicted > 100);
    CHECK(shape.result().refused > 0);
    server.cache.verify();
  }
}
