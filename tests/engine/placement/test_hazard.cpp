// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/hazard.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace cairn::engine;

TEST_CASE("ages fall into buckets of powers of two") {
  CHECK(age_bucket(0) == 0);
  CHECK(age_bucket(1) == 0);
  CHECK(age_bucket(2) == 1);
  CHECK(age_bucket(3) == 1);
  CHECK(age_bucket(4) == 2);
  CHECK(age_bucket(1023) == 9);
  CHECK(age_bucket(std::uint64_t{1} << 60U) == kAgeBuckets - 1);
}

TEST_CASE("a table's hazard lies between what it saw and its prior") {
  HazardByAge prior;
  prior.fill(0.1);
  AgeTable table;
  CHECK(shrunk(table, prior)[3] == Approx(0.1));
  table.events[3] = 9;
  table.exposure[3] = 990;
  CHECK(shrunk(table, prior)[3] == Approx(10.0 / 1000.0));
  CHECK(shrunk(table, prior)[4] == Approx(0.1));
}

namespace {

// Small steps instead of the closed form over buckets; `stop` at the end of each bucket.
std::pair<double, double> rate_and_hits(const HazardByAge& hazard, double age, double horizon) {
  constexpr double kStep = 1.0 / 16;
  double alive = 1, hits = 0, time = 0, best = 0;
  int bucket = age_bucket(static_cast<std::uint64_t>(age));
  for (double x = 0; x < 40 * horizon; x += kStep) {
    const int now = age_bucket(static_cast<std::uint64_t>(age + x));
    if (now != bucket) best = std::max(best, hits / time);
    bucket = now;
    const double lambda = -std::log1p(-hazard[static_cast<std::size_t>(now)]);
    const double weight = alive * std::exp(-(x + kStep / 2) / horizon);
    hits += weight * (1 - std::exp(-lambda * kStep));
    time += weight * kStep;
    alive *= std::exp(-lambda * kStep);
  }
  return {std::max(best, hits / time), hits};
}

}  // namespace

TEST_CASE("a rate is discounted hits over discounted time, held until the best moment to stop") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> exponent(-4, -0.5);
  for (int round = 0; round < 12; ++round) {
    HazardByAge hazard;
    for (double& h : hazard) h = std::pow(10, exponent(random));
    const RateByAge rates(hazard, 64);
    // Cells are quarters of a bucket, evaluated in their middles.
    for (const int bucket : {3, 5, 7, 9}) {
      const double middle = std::ldexp(1 + 0.125, bucket);
      const auto [rate, hits] = rate_and_hits(hazard, middle, 64);
      const auto age = static_cast<std::uint64_t>(middle);
      CHECK(rates.rate(age) == Approx(rate).epsilon(0.03));
      CHECK(rates.hits(age) == Approx(hits).epsilon(0.03));
    }
  }
}

TEST_CASE("without any experience a point's rate falls as one over its age") {
  const HazardTables tables(4, 3, 4000, 64);
  const auto rates = tables.rates();
  for (std::uint64_t age = 2; age < 10'000; age *= 2) {
    const double now = rates->at(2, 1).rate(age), later = rates->at(2, 1).rate(4 * age);
    CHECK(now > later);
    CHECK(now < 1.0 / static_cast<double>(age));
    CHECK(now > 0.02 / static_cast<double>(age));
  }
}

TEST_CASE("a class that is hit again soon is told from one that never is") {
  HazardTables tables(2, 2, 4000, 64);
  for (std::uint64_t age = 1; age < 4096; age *= 2) {
    tables.expose(0, 1, age, 800);
    for (int i = 0; i < 80; ++i) tables.event(0, 1, age);
    tables.expose(1, 0, age, 8000);
  }
  const auto rates = tables.rates();
  CHECK(rates->at(0, 1).rate(4) == Approx(-std::log1p(-0.1)).epsilon(0.05));
  CHECK(rates->at(0, 1).rate(4) > 20 * rates->at(1, 0).rate(4));
  // A feature nobody has seen goes by its class.
  CHECK(rates->at(0, 0).rate(4) > 5 * rates->at(1, 1).rate(4));
}

TEST_CASE("experience halves within the half-life") {
  HazardTables tables(1, 1, 100, 64);
  tables.event(0, 0, 4);
  for (int i = 0; i < 50; ++i) tables.event(0, 0, 4);
  tables.expose(0, 0, 4, 1000);
  const double before = tables.rates()->at(0, 0).rate(4);
  tables.expose(0, 0, 4, 1000);  // doubles the exposure: half the hazard
  const double diluted = tables.rates()->at(0, 0).rate(4);
  CHECK(diluted < before);
  tables.forget(2000);  // 20 half-lives: only the prior is left
  const HazardTables empty(1, 1, 100, 64);
  CHECK(tables.rates()->at(0, 0).rate(4) == Approx(empty.rates()->at(0, 0).rate(4)).epsilon(0.01));
}
