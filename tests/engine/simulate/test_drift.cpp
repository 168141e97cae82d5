// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/drift.hpp"

#include <map>

#include "tests/support/catch.hpp"

using namespace cairn::engine;

namespace {

using Runs = std::map<std::string, std::vector<DriftStep>>;

const Runs& runs(Drift drift) {
  static std::map<Drift, Runs> all;
  const auto [found, is_new] = all.try_emplace(drift);
  if (!is_new) return found->second;
  for (const auto& estimator : drift_estimators({})) {
    found->second[estimator->name()] = run_drift({}, drift, *estimator);
  }
  return found->second;
}

std::map<std::string, double> regrets(Drift drift) {
  std::map<std::string, double> out;
  for (const auto& [name, steps] : runs(drift)) out[name] = mean(steps).regret;
  return out;
}

std::string shown(const std::map<std::string, double>& r) {
  std::string text;
  for (const auto& [name, tokens] : r) text += name + ": " + std::to_string(tokens) + "  ";
  return text;
}

}  // namespace

TEST_CASE("at every step of every drift and estimate the regret is within F(N) TV") {
  for (const Drift drift : kDrifts) {
    CHECK(runs(drift).size() == 5);
    for (const auto& [name, steps] : runs(drift)) {
      INFO(to_string(drift) << ", " << name);
      CHECK(steps.size() == 4000);
      bool within = true;
      for (const DriftStep& s : steps) {
        within = within && s.regret >= -1e-9 && s.regret <= s.bound + 1e-9;
      }
      CHECK(within);
      CHECK(mean(steps).bound > 0);
    }
  }
}

TEST_CASE("without drift the longest memory plans best") {
  auto r = regrets(Drift::none);
  INFO(shown(r));
  CHECK(r["gamma 1"] <= r["gamma 0.999"] * 1.1);
  CHECK(r["gamma 0.999"] < r["gamma 0.99"]);
  CHECK(r["gamma 0.99"] < r["gamma 0.9"]);
}

TEST_CASE("after jumps a memory of about 100 samples beats an endless and a very short one") {
  auto r = regrets(Drift::jump);
  INFO(shown(r));
  CHECK(r["gamma 0.99"] < r["gamma 0.999"]);
  CHECK(r["gamma 0.999"] < r["gamma 1"]);
  CHECK(r["gamma 0.99"] < r["gamma 0.9"]);
}

TEST_CASE("under steady drift an endless memory is the worst of the long ones") {
  auto r = regrets(Drift::linear);
  INFO(shown(r));
  CHECK(r["gamma 0.99"] < r["gamma 0.999"]);
  CHECK(r["gamma 0.999"] < r["gamma 1"]);
}

TEST_CASE("under periodic drift a memory shorter than the period beats a longer one") {
  auto r = regrets(Drift::periodic);
  INFO(shown(r));
  CHECK(r["gamma 0.99"] < r["gamma 0.999"]);
  CHECK(r["gamma 0.99"] < r["gamma 1"]);
}

TEST_CASE("the shorter the memory, the sooner it recovers from a jump") {
  const Runs& jump = runs(Drift::jump);
  const auto recovery = [&](const char* name) {
    const std::span<const DriftStep> steps = jump.at(name);
    // The second quarter alone: the third jumps again.
    return recovery_steps(steps.first(2000), 1000, 20, steps.front().regret / 5);
  };
  CHECK(recovery("gamma 0.9") < 50);
  CHECK(recovery("gamma 0.9") < recovery("gamma 0.99"));
  CHECK(recovery("gamma 0.99") < recovery("gamma 0.999"));
  CHECK(recovery("gamma 0.99") < recovery("gamma 1"));
  CHECK(recovery("hazards") < recovery("gamma 0.99"));
}

TEST_CASE("learned hazards need no memory to be chosen: under any drift they beat all of them") {
  for (const Drift drift : {Drift::jump, Drift::linear, Drift::periodic}) {
    auto r = regrets(drift);
    INFO(to_string(drift) << ": " << shown(r));
    for (const char* gamma : {"gamma 0.9", "gamma 0.99", "gamma 0.999", "gamma 1"}) {
      CHECK(r["hazards"] < r[gamma]);
    }
  }
}

TEST_CASE("drifting demand is a distribution over ascending depths that moves as its name says") {
  const DriftOptions options;
  for (const Drift drift : kDrifts) {
    for (const int step : {0, 999, 1000, 3999}) {
      const auto demand = drifting_demand(options, drift, step);
      double sum = 0;
      std::int64_t depth = 0;
      for (const DemandPoint& p : demand) {
        CHECK(p.depth == (depth += options.tokens_per_depth));
        CHECK(p.weight > 0);
        sum += p.weight;
      }
      CHECK(sum == Approx(1));
    }
  }
  const auto moved = [&](Drift drift, int from, int to) {
    const auto p = drifting_demand(options, drift, from), q = drifting_demand(options, drift, to);
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i].weight != q[i].weight) return true;
    }
    return false;
  };
  CHECK_FALSE(moved(Drift::none, 0, 3999));
  CHECK_FALSE(moved(Drift::jump, 0, 999));
  CHECK(moved(Drift::jump, 999, 1000));
  CHECK(moved(Drift::linear, 0, 100));
  CHECK(moved(Drift::periodic, 0, 400));
}
