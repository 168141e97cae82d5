// SPDX-License-Identifier: Apache-2.0
#include "cli/machine_limits.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/packed.hpp"
#include "kernels/cpu/peaks.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace cairn::cli {
namespace {

constexpr int kRuns = 50;               // short ones, so that some are undisturbed
constexpr double kLeastSeconds = 0.15;  // longer than a thread waits for a busy core
constexpr std::int64_t kRounds = 100000;
constexpr std::size_t kLineDoubles = 8;  // threads write to a cache line each
constexpr std::size_t kReadBytes = std::size_t{512} << 20;
constexpr std::int64_t kReadParts = 8;  // timed one by one; each was last read 448 MiB ago

// Best of several: other work on the machine only ever adds time.
template <class Work>
double best_seconds(Work work) {
  using Seconds = std::chrono::duration<double>;
  const auto first = std::chrono::steady_clock::now();
  double best = 1e30;
  for (int i = 0;; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (i >= kRuns && Seconds(begin - first).count() > kLeastSeconds) return best;
    work();
    best = std::min(best, Seconds(std::chrono::steady_clock::now() - begin).count());
  }
}

// Billions of operations a second of all threads. `run` executes rounds and returns the operations.
double measure_peak(kernels::ThreadPool& pool, kernels::Isa isa,
                    double (*run)(kernels::Isa isa, std::int64_t rounds)) {
  std::vector<double> operations(static_cast<std::size_t>(pool.threads()) * kLineDoubles);
  const double seconds = best_seconds([&] {
    pool.run(pool.threads(), [&](std::int64_t t) {
      operations[static_cast<std::size_t>(t) * kLineDoubles] = run(isa, kRounds);
    });
  });
  return operations[0] * pool.threads() / seconds * 1e-9;
}

double measure_reads(kernels::ThreadPool& pool, const kernels::Ops& ops) {
  ReadBandwidth reads(pool, ops);
  return ReadBandwidth::bytes_per_pass() / best_seconds([&] { reads.pass(); }) * 1e-9;
}

}  // namespace

struct ReadBandwidth::Impl {
  kernels::ThreadPool& pool;
  const kernels::Ops& ops;
  kernels::HugeBuffer buffer{kReadBytes};
  std::vector<float> sums{};
  std::int64_t next = 0;
};

ReadBandwidth::ReadBandwidth(kernels::ThreadPool& pool, const kernels::Ops& ops)
    : impl_(new Impl{.pool = pool, .ops = ops}) {
  std::fill(impl_->buffer.data(), impl_->buffer.data() + kReadBytes, std::byte{1});
  impl_->sums.resize(static_cast<std::size_t>(pool.threads()));
}

ReadBandwidth::~ReadBandwidth() = default;

double ReadBandwidth::bytes_per_pass() {
  return static_cast<double>(kReadBytes) / static_cast<double>(kReadParts);
}

double ReadBandwidth::pass() {
  Impl& d = *impl_;
  const std::int64_t threads = d.pool.threads();
  d.pool.run(threads, [](std::int64_t) {});  // wakes them
  const auto begin = std::chrono::steady_clock::now();
  constexpr auto kPart = static_cast<std::int64_t>(kReadBytes / sizeof(float)) / kReadParts;
  const float* first =
      reinterpret_cast<const float*>(d.buffer.data()) + kPart * (d.next++ % kReadParts);
  d.pool.run(threads, [&](std::int64_t t) {
    const std::int64_t from = kPart * t / threads;
    d.sums[static_cast<std::size_t>(t)] = d.ops.sum(first + from, kPart * (t + 1) / threads - from);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

MachineLimits measure_machine(kernels::ThreadPool& pool, const kernels::Ops& ops) {
  return {measure_peak(pool, ops.isa, kernels::run_multiply_adds),
          measure_peak(pool, ops.isa, kernels::run_rounded_products),
          measure_peak(pool, ops.isa, kernels::run_dot_products), measure_reads(pool, ops)};
}

MachineLimits best_of(const MachineLimits& a, const MachineLimits& b) {
  return {std::max(a.gflops, b.gflops), std::max(a.bf16_gflops, b.bf16_gflops),
          std::max(a.int8_gops, b.int8_gops), std::max(a.read_gbytes_per_s, b.read_gbytes_per_s)};
}

}  // namespace cairn::cli
