// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/interior.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <span>
#include <utility>

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

TEST_CASE("atoms are those of all components' positions, sorted each time") {
  struct Split {
    std::int32_t position, length;
  };
  std::mt19937 random(11);
  InteriorMixture mixture;
  std::vector<Split> splits;  // the last 256
  const auto sorted_atoms = [&](std::int32_t start, std::int32_t length) {
    const auto w = mixture.weights();
    std::vector<std::pair<double, double>> all;
    for (std::size_t c = 0; c < 3; ++c) {
      std::vector<double> inside;
      for (const Split& s : splits) {
        const double x = c == 0   ? s.position
                         : c == 1 ? static_cast<double>(s.position) / s.length * length
                                  : static_cast<double>(length - (s.length - s.position));
        if (w[c] >= 1e-3 && x > start && x < length) inside.push_back(x);
      }
      for (const double x : inside) all.emplace_back(x, w[c] / static_cast<double>(inside.size()));
    }
    for (int i = 0; i < 64; ++i)
      all.emplace_back(start + (i + 0.5) / 64 * (length - start), w[3] / 64);
    std::sort(all.begin(), all.end());
    double total = 0, sum = 0;
    for (const auto& [x, weight] : all) total += weight;
    std::vector<std::int32_t> out;
    for (std::size_t i = 0, at = 0; i < 16; ++i) {
      while (at + 1 < all.size() &&
             sum + all[at].second < (static_cast<double>(i) + 0.5) / 16 * total)
        sum += all[at++].second;
      out.push_back(std::clamp(static_cast<std::int32_t>(all[at].first), start + 1, length - 1));
    }
    return out;
  };
  for (int i = 0; i < 600; ++i) {
    const auto length = static_cast<std::int32_t>(400 + random() % 40 * 50);
    const auto position = static_cast<std::int32_t>(i % 3 == 0 ? 300 : 1 + random() % 390);
    mixture.first_split(0, position, length);
    splits.push_back({position, length});
    if (splits.size() > 256) splits.erase(splits.begin());
    if (splits.size() < 8 || i % 7 != 0) continue;
    const auto start = static_cast<std::int32_t>(random() % 300);
    REQUIRE(atoms(mixture, start, length) == sorted_atoms(start, length));
  }
  std::vector<double> numbers;
  mixture.write(numbers);
  std::span<const double> in(numbers);
  InteriorMixture again;
  REQUIRE(again.read(in));
  CHECK(atoms(again, 20, 900) == sorted_atoms(20, 900));
}
