// SPDX-License-Identifier: Apache-2.0
// Steps of decoding by one thread, with and without the forest solver at work beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/live/findings.hpp"

namespace cairn::bench {

struct SolveOptions {
  std::string model;
  int pairs = 10;                         // of runs, with and without
  std::int32_t prompt = 32, answer = 64;  // tokens of a run
  std::int32_t nodes = 100'000;           // of the forest
};

struct SolveResult {
  std::vector<double> quiet, beside;  // median seconds of a step, by run
  std::int64_t solves = 0;            // ended during the runs beside them
  double solving_seconds = 0;         // of those runs
};

/// The solver's thread has the planner's priority. Throws LoadError.
SolveResult measure_solve(const SolveOptions& options);
Findings findings_of(const SolveResult& result);

}  // namespace cairn::bench
