// SPDX-License-Identifier: Apache-2.0
// What the thread pool costs around the work of a job.
//   bench_thread_pool [threads]
// Round trips of jobs whose chunks are empty, straight after one another and after a pause in which
// only the caller computes, as between the jobs of a step; then jobs of 12 computing chunks a pair
// of threads, beside the time that the chunks take when nothing is shared.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/check.hpp"
#include "bench/arguments.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace {

using cairn::kernels::ThreadPool;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

void compute_for(double us) {
  for (const auto start = Clock::now(); microseconds(start, Clock::now()) < us;) {
  }
}

struct Spread {
  double median = 0, p99 = 0;
};

Spread spread_of(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[samples.size() * 99 / 100]};
}

Spread round_trips(ThreadPool& pool, double pause_us, int jobs) {
  std::vector<double> samples;
  for (int i = 0; i < jobs; ++i) {
    compute_for(pause_us);
    const auto start = Clock::now();
    pool.run(pool.threads(), [](std::int64_t) {});
    samples.push_back(microseconds(start, Clock::now()));
  }
  return spread_of(samples);
}

// A fixed number of dependent multiplications: work that no other core's memory traffic slows.
void multiply(int times) {
  volatile double seed = 1.0000001;
  double x = seed;
  for (int i = 0; i < times; ++i) x = x * 1.0000001;
  seed = x;
}

void measure(int threads) {
  ThreadPool pool(threads);
  std::printf("%d threads\n%-38s %9s %9s\n", pool.threads(), "job of empty chunks, us", "median",
              "99 %");
  for (const double pause : {0.0, 2.0, 10.0, 30.0, 100.0, 1000.0}) {
    const Spread s = round_trips(pool, pause, pause > 100 ? 1000 : 5000);
    std::printf("  after %6.0f us of the caller alone    %9.2f %9.2f\n", pause, s.median, s.p99);
  }

  constexpr int kTimes = 10'000;
  std::vector<double> alone;
  for (int i = 0; i < 500; ++i) {
    const auto start = Clock::now();
    multiply(kTimes);
    alone.push_back(microseconds(start, Clock::now()));
  }
  const double chunk_us = spread_of(alone).median;
  const std::int64_t chunks = std::int64_t{6} * pool.threads();
  std::vector<double> jobs;
  const auto start = Clock::now();
  for (int i = 0; i < 3000; ++i) {
    const auto begin = Clock::now();
    pool.run(chunks, [](std::int64_t) { multiply(kTimes); });
    jobs.push_back(microseconds(begin, Clock::now()));
  }
  const double mean = microseconds(start, Clock::now()) / static_cast<double>(jobs.size());
  const Spread s = spread_of(jobs);
  std::printf("job of %lld chunks of %.1f us: %.1f us if nothing is lost, median %.1f, mean %.1f\n",
              static_cast<long long>(chunks), chunk_us, 6 * chunk_us, s.median, mean);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 2) throw cairn::LoadError("usage: bench_thread_pool [THREADS]");
    measure(argc > 1 ? cairn::bench::whole_number("THREADS", argv[1], 1, 1024) : 2);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_thread_pool: %s\n", e.what());
    return 1;
  }
}
