// SPDX-License-Identifier: Apache-2.0
#include "cli/machine_limits.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/check.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace cairn::cli {
namespace {

constexpr int kRuns = 50;               // short ones, so that some are undisturbed
constexpr std::int64_t kPanelRows = 6;  // rows, columns and depth of a product that stays in cache
constexpr std::int64_t kPanelColumns = 64;
constexpr std::int64_t kPanelDepth = 128;
constexpr std::int64_t kRowStride = kPanelDepth + 16;  // rows must not share cache sets
constexpr int kRepeats = 500;
constexpr std::size_t kReadBytes = std::size_t{512} << 20;
constexpr std::int64_t kReadParts = 8;  // timed one by one; each was last read 448 MiB ago

// Best of several: other work on the machine only ever adds time.
template <class Work>
double best_seconds(Work work) {
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

double measure_gflops(kernels::ThreadPool& pool, const kernels::Ops& ops) {
  const kernels::PackedMatrix weights(kPanelColumns, kPanelDepth);
  const std::vector<float> x(kPanelRows * kRowStride, 0.5F);
  const std::int64_t threads = pool.threads();
  std::vector<std::vector<float>> y(static_cast<std::size_t>(threads),
                                    std::vector<float>(kPanelRows * kPanelColumns));
  const double seconds = best_seconds([&] {
    pool.run(threads, [&](std::int64_t t) {
      for (int i = 0; i < kRepeats; ++i)
        ops.gemm(weights, 0, 1, x.data(), kRowStride, kPanelRows,
                 y[static_cast<std::size_t>(t)].data(), kPanelColumns);
    });
  });
  const double operations = 2.0 * kPanelRows * kPanelColumns * kPanelDepth * kRepeats;
  return operations * static_cast<double>(threads) / seconds * 1e-9;
}

double measure_reads(kernels::ThreadPool& pool, const kernels::Ops& ops) {
  kernels::HugeBuffer buffer(kReadBytes);
  std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{1});
  const auto* values = reinterpret_cast<const float*>(buffer.data());
  const auto part = static_cast<std::int64_t>(buffer.size() / sizeof(float)) / kReadParts;
  const std::int64_t threads = pool.threads();
  std::vector<float> sums(static_cast<std::size_t>(threads));
  std::int64_t next = 0;
  const double seconds = best_seconds([&] {
    const float* first = values + part * (next++ % kReadParts);
    pool.run(threads, [&](std::int64_t t) {
      const std::int64_t begin = part * t / threads;
      sums[static_cast<std::size_t>(t)] = ops.sum(first + begin, part * (t + 1) / threads - begin);
    });
  });
  return static_cast<double>(part) * sizeof(float) / seconds * 1e-9;
}

}  // namespace

MachineLimits measure_machine(int threads, const std::string& isa) {
  const auto chosen = kernels::choose_isa(isa);
  if (!chosen) throw LoadError(chosen.error().message);
  kernels::ThreadPool pool(threads);
  const kernels::Ops& ops = kernels::ops(*chosen);
  return {measure_gflops(pool, ops), measure_reads(pool, ops)};
}

}  // namespace cairn::cli
