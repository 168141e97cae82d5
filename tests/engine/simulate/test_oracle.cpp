// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/oracle.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "base/check.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/simulate/simulator.hpp"

using namespace cairn::engine;

namespace {

SimulatorResult run(const Trace& trace, std::unique_ptr<CachePolicy> policy, std::uint64_t bytes) {
  SimulatorOptions options;
  options.bytes = bytes;
  options.costs = {.state_bytes = 1000, .kv_bytes_per_token = 1, .kv_block = 1};
  return simulate(trace, std::move(policy), options);
}

}  // namespace

TEST_CASE(
    "knowing the future, the state that comes back is kept and the one that never does is not") {
  // Two long prompts; only the second returns, after two others that need its room.
  const auto trace = chain_trace({{.length = 500, .overlap = 0, .parent = -1},
                                  {.length = 500, .overlap = 0, .parent = -1},
                                  {.length = 400, .overlap = 0, .parent = -1},
                                  {.length = 520, .overlap = 460, .parent = 1},
                                  {.length = 530, .overlap = 460, .parent = 1}});
  const auto oracle = run(*trace, std::make_unique<OraclePolicy>(*trace), 1600);
  CHECK(oracle.recomputed_tokens == 0);
  CHECK(run(*trace, make_cache_policy("last").take(), 1600).recomputed_tokens == 2 * 460);
}

TEST_CASE("nobody who does not know the future does better within little room") {
  std::mt19937 random(5);
  double oracle = 0, best = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<TraceRequest> requests;
    for (int i = 0; i < 300; ++i) {
      TraceRequest r{
          .length = 200 + static_cast<std::int32_t>(random() % 800), .overlap = 0, .parent = -1};
      if (i > 0 && random() % 3 != 0) {
        r.parent = i - 1 - static_cast<std::int32_t>(random() % std::min(i, 30));
        const std::int32_t length = requests[static_cast<std::size_t>(r.parent)].length;
        r.overlap = 1 + static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(length));
        r.length = r.overlap + 1 + static_cast<std::int32_t>(random() % 200);
      }
      requests.push_back(r);
    }
    const auto trace = chain_trace(std::move(requests));
    oracle += run(*trace, std::make_unique<OraclePolicy>(*trace), 12'000).recomputed_share();
    double least = 1;
    for (const char* policy :
         {"last", "branch", "branch_path", "balanced:4", "marconi:1", "forest"}) {
      least =
          std::min(least, run(*trace, make_cache_policy(policy).take(), 12'000).recomputed_share());
    }
    best += least;
  }
  CHECK(oracle < 0.8 * best);
}

TEST_CASE("an oracle needs a trace that says who shares what") {
  class Tokens final : public Trace {
   public:
    Tokens() : Trace({{.length = 3}}) {}
    Trace::Tokens tokens(std::size_t) const override {
      return std::make_shared<const std::vector<std::int32_t>>(3, 1);
    }
  };
  CHECK_THROWS_AS(OraclePolicy(Tokens()), cairn::LoadError);
}
