// SPDX-License-Identifier: Apache-2.0
// What this machine can do at best, measured in the same run as what is compared with it.
#pragma once

#include <memory>

namespace cairn::kernels {
class ThreadPool;
struct Ops;
}  // namespace cairn::kernels

namespace cairn::cli {

struct MachineLimits {
  double gflops = 0;             // fp32 multiply-adds on registers, two operations each
  double bf16_gflops = 0;        // products of rounded values on registers, two operations each
  double int8_gops = 0;          // exact sums of 8-bit products on registers, two operations each
  double read_gbytes_per_s = 0;  // streaming reads from memory
};

/// With all threads of a pool. Takes about a second and 512 MiB.
MachineLimits measure_machine(kernels::ThreadPool& pool, const kernels::Ops& ops);

/// Streaming reads a little at a time, between pieces of what they are compared with: a shared
/// machine's memory changes its speed twofold within seconds. Owned by one thread; holds 512 MiB.
class ReadBandwidth {
 public:
  /// `pool` and `ops` outlive it.
  ReadBandwidth(kernels::ThreadPool& pool, const kernels::Ops& ops);
  ~ReadBandwidth();
  /// Reads bytes_per_pass() with all threads, from where no cache has them; seconds it took.
  double pass();
  static double bytes_per_pass();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The higher of each of two measurements.
MachineLimits best_of(const MachineLimits& a, const MachineLimits& b);

}  // namespace cairn::cli
