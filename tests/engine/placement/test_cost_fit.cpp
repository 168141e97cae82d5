// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/cost_fit.hpp"

#include <catch2/catch.hpp>
#include <random>

using cairn::engine::CostFit;
using cairn::engine::CostModel;

namespace {

// One step of `tokens` rows that begins at `start`, as F(start + tokens) - F(start).
void step(CostFit& fit, const CostModel& truth, double start, double tokens, double noise = 1) {
  const double context = tokens * start + tokens * (tokens - 1) / 2;
  fit.add(tokens, context, noise * truth.between(start, start + tokens));
}

}  // namespace

TEST_CASE("steps at different depths give both parts of the cost of prefill") {
  const CostModel truth{.a = 4e-3, .b = 2e-7};
  CostFit fit;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.97, 1.03);
  for (int i = 0; i < 300; ++i) {
    step(fit, truth, static_cast<double>(random() % 40) * 512,
         64 + static_cast<double>(random() % 448), noise(random));
  }
  CHECK(fit.fit().a == Approx(truth.a).epsilon(0.05));
  CHECK(fit.fit().b == Approx(truth.b).epsilon(0.1));
}

TEST_CASE("steps at one depth give a flat cost, and none gives nothing") {
  CostFit fit;
  CHECK(fit.fit().a == 0);
  for (int i = 0; i < 20; ++i) step(fit, {.a = 1e-3, .b = 1e-6}, 1000, 512);
  CHECK(fit.fit().b == 0);
  CHECK(fit.fit().a == Approx(1e-3 + 1e-6 * (1000 + 255.5)).epsilon(1e-6));
  fit.add(0, 0, 1);
  fit.add(5, 0, -1);
  CHECK(fit.fit().b == 0);
}

TEST_CASE("a machine that becomes slower is followed") {
  CostFit fit;
  for (int i = 0; i < 200; ++i) step(fit, {.a = 1e-3, .b = 0}, 512.0 * (i % 8), 512);
  for (int i = 0; i < 200; ++i) step(fit, {.a = 3e-3, .b = 0}, 512.0 * (i % 8), 512);
  CHECK(fit.fit().a == Approx(3e-3).epsilon(0.05));
}
