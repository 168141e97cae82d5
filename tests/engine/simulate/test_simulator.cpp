// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/shape_replay.hpp"
#include "engine/simulate/simulator.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_prompts.hpp"
#include "tests/support/scripted_policy.hpp"

using namespace cairn;
using namespace cairn::engine;
using cairn::tests::document;
using cairn::tests::ends_and_branches;
using cairn::tests::RandomPrompts;
using cairn::tests::ScriptedPolicy;
using cairn::tests::Tokens;
using cairn::tests::operator+;

namespace {

// Prompts that state nothing of themselves.
class ListTrace final : public Trace {
 public:
  explicit ListTrace(const std::vector<::Tokens>& prompts)
      : Trace(lengths(prompts)), prompts_(prompts) {}
  Trace::Tokens tokens(std::size_t i) const override {
    return std::make_shared<const ::Tokens>(prompts_[i]);
  }

 private:
  static std::vector<TraceRequest> lengths(const std::vector<::Tokens>& prompts) {
    std::vector<TraceRequest> out(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      out[i].length = static_cast<std::int32_t>(prompts[i].size());
    }
    return out;
  }
  std::vector<::Tokens> prompts_;
};

std::unique_ptr<ScriptedPolicy> branches() {
  return std::make_unique<ScriptedPolicy>(ends_and_branches);
}

// Asks for a planner by its name and writes down when a plan came.
class PlanDiary final : public CachePolicy {
 public:
  PlanDiary(std::vector<std::pair<std::uint64_t, std::uint64_t>>& diary, std::string name)
      : diary_(diary), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void observe(const RequestView& q) override { tick_ = q.tick; }
  std::vector<Placement> place(const RequestView&) override { return {}; }
  PlanNode least(const Usable&) override { return kNoPlanNode; }
  void adopt(const std::shared_ptr<const Plan>& plan) override {
    diary_.emplace_back(tick_, plan->observations);
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>>& diary_;  // requests seen, planned from
  std::string name_;
  std::uint64_t tick_ = 0;
};

}  // namespace

TEST_CASE("a small trace is counted as by hand") {
  const Tokens doc = document(1, 100);
  const ListTrace trace({doc + document(2, 20), doc + document(3, 20), doc + document(4, 20),
                         doc + document(4, 20), Tokens{7}, Tokens{7}});
  SimulatorOptions options;
  options.costs = {.state_bytes = 1000, .kv_bytes_per_token = 10, .kv_block = 1};
  options.policy_costs.prefill = {.a = 2, .b = 0.5};
  std::vector<std::int32_t> reusable, resume;
  options.each = [&](const SimulatedRequest& r) {
    reusable.push_back(r.reusable);
    resume.push_back(r.resume);
  };
  const SimulatorResult r = simulate(trace, branches(), options);
  CHECK(r.policy == "scripted");
  CHECK(r.requests == 6);
  CHECK(r.prompt_tokens == 482);
  CHECK(reusable == std::vector<std::int32_t>{0, 100, 100, 119, 0, 0});
  CHECK(resume == std::vector<std::int32_t>{0, 0, 100, 119, 0, 0});
  CHECK(r.reusable_tokens == 319);
  CHECK(r.recomputed_tokens == 100);
  CHECK(r.recomputed_share() == Approx(100.0 / 319));
  const CostModel f{.a = 2, .b = 0.5};
  CHECK(r.reusable_cost == Approx(f(100) + f(100) + f(119)));
  CHECK(r.recomputed_cost == Approx(f(100)));
  CHECK(r.states_written == 4);  // three ends and the branch
  CHECK(r.states_dropped == 0);
  CHECK_FALSE(r.gap);
  REQUIRE(r.held.size() == 6);
  CHECK(r.held[0].bytes == 1000 + 119 * 10);
  CHECK(r.held[5].bytes == 4 * 1000 + (100 + 3 * 19) * 10);
}

TEST_CASE("a budget is kept to, by token or by block") {
  const Tokens doc = document(1, 100);
  std::vector<Tokens> prompts;
  for (std::uint64_t i = 0; i < 60; ++i) prompts.push_back(document(i % 7, 40) + document(i, 33));
  const ListTrace trace(prompts);
  for (const std::int32_t block : {1, 16}) {
    SimulatorOptions options;
    options.bytes = 6000;
    options.costs = {.state_bytes = 500, .kv_bytes_per_token = 5, .kv_block = block};
    const SimulatorResult r = simulate(trace, branches(), options);
    std::uint64_t most = 0;
    for (const auto& held : r.held) most = std::max(most, held.bytes);
    CHECK(most <= 6000);
    CHECK(most > 5000);
    CHECK(r.states_dropped > 0);
    // Of a chain of one end: its 72 tokens by token or five blocks of 16.
    CHECK(r.held[0].bytes == (block == 1 ? 500 + 72 * 5 : 500 + 5 * 16 * 5));
  }
}

TEST_CASE("reusable tokens are those shared with any earlier prompt, however long ago") {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    RandomPrompts random(seed);
    std::vector<Tokens> prompts;
    for (int i = 0; i < 300; ++i) prompts.push_back(random.next());
    const ListTrace trace(prompts);
    SimulatorOptions options;
    options.bytes = 20'000;
    options.costs = {.state_bytes = 1000, .kv_bytes_per_token = 8, .kv_block = 1};
    options.idle_requests = 5;  // the cache forgets, the count does not
    options.each = [&](const SimulatedRequest& r) {
      std::ptrdiff_t overlap = 0;
      const Tokens& own = prompts[r.index];
      for (std::size_t j = 0; j < r.index; ++j) {
        const auto end =
            std::mismatch(own.begin(), own.end(), prompts[j].begin(), prompts[j].end()).first;
        overlap = std::max(overlap, end - own.begin());
      }
      REQUIRE(r.length == static_cast<std::int32_t>(own.size()));
      REQUIRE(r.reusable == std::min<std::ptrdiff_t>(overlap, r.length - 1));
      REQUIRE(r.resume <= r.reusable);
    };
    const SimulatorResult r = simulate(trace, branches(), options);
    CHECK(r.recomputed_tokens > 0);
    CHECK(r.recomputed_tokens < r.reusable_tokens);
  }
}

TEST_CASE("a plan is used as many requests later as the lag says") {
  std::vector<Tokens> prompts;
  for (std::uint64_t i = 0; i < 35; ++i) prompts.push_back(document(1, 50) + document(i, 20));
  const ListTrace trace(prompts);
  using Diary = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  const auto run = [&](const char* name, std::int32_t lag) {
    Diary diary;
    SimulatorOptions options;
    options.plan_lag = lag;
    simulate(trace, std::make_unique<PlanDiary>(diary, name), options);
    return diary;
  };
  CHECK(run("dp:4", 0) == Diary{{10, 10}, {20, 20}, {30, 30}});
  CHECK(run("dp:4", 4) == Diary{{14, 10}, {24, 20}, {34, 30}});
  CHECK(run("dp:4", 15) == Diary{{25, 10}});
  CHECK(run("branch", 0).empty());
}

TEST_CASE("paths are forgotten after as many idle requests as the options say, by default never") {
  std::vector<Tokens> prompts{document(1, 30)};
  for (std::int32_t i = 0; i < 2500; ++i) prompts.push_back({100'000 + i, 5});
  prompts.push_back(document(1, 30));
  const ListTrace trace(prompts);
  std::int32_t overlap = -1;
  const auto run = [&](SimulatorOptions options) {
    simulate(trace, std::make_unique<ScriptedPolicy>([&](const RequestView& q) {
               overlap = q.overlap;
               return std::vector<Placement>{};
             }),
             options);
    return overlap;
  };
  CHECK(run({}) == 30);
  SimulatorOptions options;
  options.idle_requests = 2501;
  CHECK(run(options) == 30);
  options.idle_requests = 2499;
  CHECK(run(options) == 0);
}

TEST_CASE("a recorded trace is simulated as on the plan tree alone") {
  const std::string path = std::string(CAIRN_SOURCE_DIR) + "/bench/traces/gsm8k8shot.csv.gz";
  const auto trace = read_trace(path);
  SimulatorOptions options;
  options.bytes = 1'000'000'000;
  const SimulatorResult r = simulate(*trace, branches(), options);
  const auto policy = branches();
  const auto expected = replay(*trace, *policy, options.costs, options.bytes);
  CHECK(r.reusable_tokens == expected.reusable);
  CHECK(r.recomputed_tokens == expected.recomputed);
  CHECK(r.states_written == expected.states_written);
  CHECK(r.states_dropped == expected.evicted);
  CHECK(r.held.back().bytes == expected.bytes);
  CHECK(expected.evicted > 0);
}

TEST_CASE("a simulation without a policy or with a plan from the future is refused") {
  const ListTrace trace({document(1, 10)});
  CHECK_THROWS_AS(simulate(trace, nullptr, {}), InvariantError);
  SimulatorOptions options;
  options.plan_lag = -1;
  CHECK_THROWS_AS(simulate(trace, branches(), options), InvariantError);
}
