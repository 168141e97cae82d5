// SPDX-License-Identifier: Apache-2.0
// Processor time, so that a busy machine does not fail a fact.
#pragma once

#include <time.h>

#include <algorithm>
#include <functional>

namespace cairn::bench {

/// Of this thread.
inline double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The quickest of several rounds.
inline double best_seconds(int rounds, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = processor_seconds();
    work();
    best = std::min(best, processor_seconds() - start);
  }
  return best;
}

}  // namespace cairn::bench
