// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/step_pace.hpp"

#include <algorithm>
#include <chrono>
#include <random>

#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;
using engine::StepPace;
using engine::StepShape;

namespace {

// Seconds of a machine's steps.
struct Machine {
  double base, row, context, decode_row;
  double seconds(const StepShape& s) const {
    return base + row * s.prefill_rows + context * s.prefill_context + decode_row * s.decode_rows;
  }
};

// Weights of 16 bits and of 8 on two cores, a GPU, a toy.
constexpr Machine kMachines[] = {{0.030, 0.0052, 2e-7, 0.0010},
                                 {0.015, 0.0010, 2e-7, 0.0005},
                                 {0.004, 0.00002, 1e-9, 0.00001},
                                 {0.0001, 0.00005, 1e-9, 0.00001}};
constexpr double kTarget = 0.1;
constexpr std::int32_t kMost = 2048;

// A step of `rows` of a prompt at `progress`, beside `decoding` sequences.
StepShape mixed(std::int32_t rows, std::int32_t progress, std::int32_t decoding) {
  return {rows, rows * (progress + 0.5 * (rows - 1)), decoding, 100.0 * decoding};
}

// A server's first minute: a short prompt, then its answer.
void warm(StepPace& pace, const Machine& machine) {
  const StepShape prompt = mixed(60, 0, 0);
  pace.observe(prompt, machine.seconds(prompt));
  for (int i = 0; i < 20; ++i) pace.observe(mixed(0, 0, 1), machine.seconds(mixed(0, 0, 1)));
}

}  // namespace

TEST_CASE("steps stay under the target on every machine, and prompts get most of it") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  for (const Machine& machine : kMachines) {
    for (const std::int32_t decoding : {1, 12}) {
      StepPace pace(kTarget);
      warm(pace, machine);
      std::int32_t progress = 0;
      for (int step = 0; step < 60; ++step) {
        const auto shape = [&](std::int32_t rows) { return mixed(rows, progress, decoding); };
        const std::int32_t rows = pace.rows(kMost, shape);
        const double alone = machine.seconds(shape(0));
        const double took = machine.seconds(shape(rows)) * noise(random);
        CAPTURE(machine.base, decoding, step, rows, took);
        const double over = step < 3 ? 1.3 : 1.1;  // the first of their kind
        REQUIRE(took < over * std::max(kTarget, 1.25 * alone));
        const double ideal = (kTarget - alone) / (machine.row + machine.context * progress);
        if (step >= 10) REQUIRE(rows > 0.7 * std::min<double>(ideal, kMost) - 8);
        pace.observe(shape(rows), took);
        progress += rows;
      }
    }
  }
}

TEST_CASE("prefill advances however slow the machine is, and takes a share of the time") {
  for (const double slower : {1.0, 5.0, 100.0}) {
    const Machine machine{0.05 * slower, 0.001 * slower, 0, 0};
    StepPace pace(0.06);
    warm(pace, machine);
    const auto shape = [](std::int32_t rows) { return mixed(rows, 0, 1); };
    for (int step = 0; step < 10; ++step) {
      const std::int32_t rows = pace.rows(kMost, shape);
      CAPTURE(slower, rows);
      REQUIRE(rows >= StepPace::kLeastRows);
      REQUIRE(rows * machine.row > 0.12 * machine.seconds(shape(rows)));
      pace.observe(shape(rows), machine.seconds(shape(rows)));
    }
  }
  StepPace stuck(1e-6);
  warm(stuck, {1e-6, 1.0, 0, 0});
  REQUIRE(stuck.rows(kMost, [](std::int32_t n) { return mixed(n, 0, 1); }) == StepPace::kLeastRows);
  REQUIRE(stuck.rows(3, [](std::int32_t n) { return mixed(n, 0, 1); }) == 3);
}

TEST_CASE("one slow step is no reason to crawl, a machine that became slower is followed") {
  const Machine machine = kMachines[1];
  StepPace pace(kTarget);
  warm(pace, machine);
  const auto shape = [](std::int32_t rows) { return mixed(rows, 500, 2); };
  const auto run = [&](double slower) {
    const std::int32_t rows = pace.rows(kMost, shape);
    pace.observe(shape(rows), slower * machine.seconds(shape(rows)));
    return slower * machine.seconds(shape(rows));
  };
  for (int i = 0; i < 20; ++i) run(1);
  const std::int32_t before = pace.rows(kMost, shape);
  run(20);
  REQUIRE(pace.rows(kMost, shape) > before / 3);
  for (int i = 0; i < 5; ++i) run(1);
  REQUIRE(pace.rows(kMost, shape) > before / 2);
  for (int i = 0; i < 6; ++i) run(3);
  for (int i = 0; i < 20; ++i) REQUIRE(run(3) < 1.1 * kTarget);
  for (int i = 0; i < 30; ++i) run(1);
  REQUIRE(pace.rows(kMost, shape) > before * 3 / 4);
}

TEST_CASE("a long prompt beside a stream is cut to the target, alone it is not; answers stay") {
  using Clock = std::chrono::steady_clock;
  const FakeBackend* backend = nullptr;
  const auto cost = [](const FakeStep& step) { return 20 + step.rows; };  // ms
  const auto run = [&](double max_step_seconds) {
    Rig rig({.max_step_tokens = 256, .max_step_seconds = max_step_seconds, .now = [&] {
               int ms = 0;
               if (backend) {
                 for (const FakeStep& step : backend->steps()) ms += cost(step);
               }
               return Clock::time_point{} + std::chrono::milliseconds(ms);
             }});
    backend = &rig.backend;
    const Ask stream = random_ask(1, 40, 60);
    const Ask prompt = random_ask(2, 900, 4);
    rig.loop.admit(rig.spec(1, stream));
    for (int i = 0; i < 20; ++i) rig.step();
    rig.loop.admit(rig.spec(2, prompt));
    std::int32_t held_back = 0, longest = 0, mixed_steps = 0;
    while (rig.loop.has_work()) {
      const StepReport report = rig.step();
      held_back += report.rows_held_back;
      if (report.prefill_rows == 0 || report.decode_rows == 0) continue;
      ++mixed_steps;
      longest = std::max(longest, cost(rig.backend.steps().back()));
      REQUIRE(report.expected_seconds > 0);
    }
    REQUIRE(rig.outcomes.at(1).tokens == cold_answer(stream));
    REQUIRE(rig.outcomes.at(2).tokens == cold_answer(prompt));
    backend = nullptr;
    return std::tuple{held_back, longest, mixed_steps};
  };
  const auto [held_back, longest, mixed_steps] = run(0.1);
  CHECK(held_back > 0);
  CHECK(longest <= 105);
  CHECK(mixed_steps < 20);  // 900 / 80 of them if nothing is left unused
  const auto [none, full, fewest] = run(0);
  CHECK(none == 0);
  CHECK(full > 250);
  CHECK(fewest == 4);
}

TEST_CASE("prompts that nobody waits beside have the whole step") {
  Rig rig({.max_step_tokens = 256, .max_step_seconds = 1e-9}, 4096, 512,
          {.attention_in_state = false});
  rig.loop.admit(rig.spec(1, random_ask(1, 900, 1)));
  for (int i = 0; i < 3; ++i) REQUIRE(rig.step().prefill_rows == 256);
  rig.run();
}

TEST_CASE("short prompts right behind one another are not held back, a settled stream's are") {
  for (const bool settled : {false, true}) {
    Rig rig({.max_step_tokens = 256, .max_step_seconds = 1e-9});
    rig.loop.admit(rig.spec(1, random_ask(1, 40, 30)));
    for (int i = 0; i < (settled ? 6 : 1); ++i) rig.step();
    for (SequenceId id = 2; id < 5; ++id) rig.loop.admit(rig.spec(id, random_ask(id, 60, 4)));
    const StepReport report = rig.step();
    CHECK(report.decode_rows == 1);
    CHECK(report.prefill_rows == (settled ? StepPace::kLeastRows : 180));
    rig.run();
  }
  Rig rig({.max_step_tokens = 256, .max_step_seconds = 1e-9});
  rig.loop.admit(rig.spec(1, random_ask(1, 40, 30)));
  rig.step();
  rig.loop.admit(rig.spec(2, random_ask(2, 300, 4)));  // more than one step
  CHECK(rig.step().prefill_rows == StepPace::kLeastRows);
  rig.run();
}
