// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/interior.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace cairn::engine;

namespace {

// The share of `atoms` within `slack` tokens of `where`.
double near(const std::vector<std::int32_t>& atoms, std::int32_t where, std::int32_t slack) {
  const auto hits = std::count_if(atoms.begin(), atoms.end(),
                                  [&](std::int32_t x) { return std::abs(x - where) <= slack; });
  return static_cast<double>(hits) / static_cast<double>(atoms.size());
}

std::vector<std::int32_t> atoms(const InteriorMixture& mixture, std::int32_t start,
                                std::int32_t length) {
  std::vector<std::int32_t> out;
  mixture.atoms(start, length, 16, out);
  return out;
}

}  // namespace

TEST_CASE("without samples first splits are expected evenly") {
  const InteriorMixture mixture;
  const auto even = atoms(mixture, 200, 1000);
  REQUIRE(even.size() == 16);
  CHECK(std::is_sorted(even.begin(), even.end()));
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(std::abs(even[i] - (225 + 50 * static_cast<int>(i))) <= 8);
  CHECK(mixture.weights()[3] == 1);
}

TEST_CASE("regular positions, fractions and distances from the end are each found out") {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int32_t> lengths(1000, 9000);
  InteriorMixture position, fraction, distance;
  for (int i = 0; i < 60; ++i) {
    const std::int32_t n = lengths(random);
    position.first_split(0, 700, n);
    fraction.first_split(0, n * 2 / 5, n);
    distance.first_split(0, n - 120, n);
  }
  CHECK(position.weights()[0] > 0.9);
  CHECK(fraction.weights()[1] > 0.9);
  CHECK(distance.weights()[2] > 0.9);
  CHECK(near(atoms(position, 0, 6000), 700, 2) > 0.9);
  CHECK(near(atoms(fraction, 0, 6000), 2400, 2) > 0.9);
  CHECK(near(atoms(distance, 0, 6000), 5880, 2) > 0.9);
}

TEST_CASE("the uniform part keeps a twentieth however regular the splits are") {
  InteriorMixture mixture;
  for (int i = 0; i < 500; ++i) mixture.first_split(0, 700, 2000);
  CHECK(mixture.weights()[3] >= 0.05 - 1e-12);
  const auto w = mixture.weights();
  CHECK(w[0] + w[1] + w[2] + w[3] == Approx(1));
}

TEST_CASE("a workload that changes is followed") {
  InteriorMixture mixture;
  std::mt19937 random(5);
  std::uniform_int_distribution<std::int32_t> lengths(1000, 9000);
  for (int i = 0; i < 256; ++i) mixture.first_split(0, 700, lengths(random));
  CHECK(mixture.weights()[0] > 0.9);
  for (int i = 0; i < 256; ++i) {
    const std::int32_t n = lengths(random);
    mixture.first_split(0, n - 64, n);
  }
  CHECK(mixture.weights()[2] > 0.9);
}

TEST_CASE("atoms lie strictly inside the unshared part, whatever was learned") {
  std::mt19937 random(11);
  InteriorMixture mixture;
  for (int round = 0; round < 2000; ++round) {
    const auto length = std::uniform_int_distribution<std::int32_t>(3, 5000)(random);
    const auto start = std::uniform_int_distribution<std::int32_t>(0, length - 2)(random);
    const auto a = atoms(mixture, start, length);
    REQUIRE(a.size() == 16);
    for (const std::int32_t x : a) {
      REQUIRE(x > start);
      REQUIRE(x < length);
    }
    const auto at = std::uniform_int_distribution<std::int32_t>(start + 1, length - 1)(random);
    mixture.first_split(start, at, length);
  }
  std::vector<std::int32_t> none{1};
  mixture.atoms(5, 6, 16, none);
  CHECK(none.empty());
}
