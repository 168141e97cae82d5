// SPDX-License-Identifier: Apache-2.0
// What the placement rule is told that copying a state costs, in tokens of prefill.
#include <chrono>
#include <limits>

#include "base/check.hpp"
#include "engine/simulate/simulator.hpp"
#include "tests/actors/planner_mail.hpp"
#include "tests/actors/tiny.hpp"

using namespace cairn;
using namespace cairn::actors;
using namespace cairn::tests;
using namespace std::chrono_literals;

namespace {

// One look-up after the other; returns the costs that each was decided by.
class Asked {
 public:
  explicit Asked(std::shared_ptr<Shared> shared) : desk_(std::move(shared), mail_) {}
  engine::PolicyCosts next() {
    ++seq_;
    serve(desk_, seq_, ids(20, static_cast<std::int32_t>(seq_ % 3)));
    REQUIRE(mail_.seen.size() == seq_);
    return mail_.seen.back().costs;
  }

 private:
  PlannerMail mail_;
  PrefixDesk desk_;
  SequenceId seq_ = 0;
};

void measured(Shared& shared, double a, double b, double copy) {
  shared.prefill_seconds_a = a;
  shared.prefill_seconds_b = b;
  shared.seconds_per_state_copy = copy;
}

struct SlowCopies {
  explicit SlowCopies(std::chrono::microseconds per_state) {
    wrap_backends(slow_copies(per_state));
  }
  ~SlowCopies() { wrap_backends(nullptr); }
};

// Of a prompt that was served before, the tokens that its repeat finds.
std::int32_t repeat_finds(std::optional<double> copy_tokens) {
  EngineOptions options = tiny();
  options.copy_tokens = copy_tokens;
  const auto engine = make_engine(options);
  REQUIRE_FALSE(ask(*engine, endless(ids(40, 1), 1)).error);
  const Answer again = ask(*engine, endless(ids(40, 1), 1));
  REQUIRE_FALSE(again.error);
  return again.cached();
}

}  // namespace

TEST_CASE("before any prefill is measured a copy is charged as the simulator does") {
  const auto shared = shared_for("forest");
  measured(*shared, 0, 0, 0.125);
  Asked asked(shared);
  for (int i = 0; i < 3; ++i) {
    const engine::PolicyCosts costs = asked.next();
    CHECK(costs.write == engine::kWriteTokens);
    CHECK(costs.restore == 0);
    CHECK(costs.prefill.a == 1);
    CHECK(costs.prefill.b == 0);
  }
}

TEST_CASE("the look-up after the first prefill goes by measured costs, early ones by the newest") {
  const auto shared = shared_for("forest");
  measured(*shared, 0, 0, 0.125);
  Asked asked(shared);
  asked.next();
  measured(*shared, 0.0625, 0.015625, 0.125);
  const engine::PolicyCosts second = asked.next();
  CHECK(second.write == 2);
  CHECK(second.restore == 2);
  CHECK(second.prefill.a == 1);
  CHECK(second.prefill.b == 0.25);
  measured(*shared, 0.03125, 0, 0.125);
  CHECK(asked.next().write == 4);
}

TEST_CASE("once many look-ups have been measured every 64th renews the costs") {
  const auto shared = shared_for("forest");
  measured(*shared, 1, 0, 1);
  Asked asked(shared);
  for (int i = 0; i <= 64; ++i) CHECK(asked.next().write == 1);
  measured(*shared, 1, 0, 3);
  for (int i = 65; i < 128; ++i) CHECK(asked.next().write == 1);
  CHECK(asked.next().write == 3);
}

TEST_CASE("with copy_tokens nothing that is measured counts") {
  const auto shared = shared_for("forest");
  shared->options.copy_tokens = 7;
  Asked asked(shared);
  for (const double a : {0.0, 0.5, 2.0}) {
    measured(*shared, a, a / 4, 1);
    const engine::PolicyCosts costs = asked.next();
    CHECK(costs.write == 7);
    CHECK(costs.restore == 7);
    CHECK(costs.prefill.a == 1);
    CHECK(costs.prefill.b == 0);
  }
}

TEST_CASE("the copy measured before serving and one prefill decide whether a hit pays") {
  CHECK(repeat_finds({}) == 39);
  CHECK(repeat_finds(39.0) == 0);
  CHECK(repeat_finds(38.5) == 39);
  // The tiny model computes the prompt in less than this.
  const SlowCopies slow(100ms);
  CHECK(repeat_finds({}) == 0);
  CHECK(repeat_finds(0.0) == 39);
}

TEST_CASE("a copy cost that is none is refused by its name, one that is used is shown") {
  for (const double bad : {-1.0, 1.1e9, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(bad);
    EngineOptions options = tiny();
    options.copy_tokens = bad;
    CHECK_THROWS_WITH(make_engine(options), Catch::Contains("copy_tokens"));
  }
  for (const auto& [tokens, shown] : std::vector<std::pair<std::optional<double>, std::string>>{
           {std::nullopt, "as measured"}, {0.0, "0"}, {2.5, "2.5"}}) {
    EngineOptions options = tiny();
    options.copy_tokens = tokens;
    const auto engine = make_engine(options);
    const auto& limits = engine->info().limits;
    const std::pair<std::string, std::string> line("copy_tokens", shown);
    CHECK(std::count(limits.begin(), limits.end(), line) == 1);
  }
}
