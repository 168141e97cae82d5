// SPDX-License-Identifier: Apache-2.0
// What this machine can do at best, measured in the same run as what is compared with it.
#pragma once

#include <string>

namespace cairn::cli {

struct MachineLimits {
  double gflops = 0;  // fused multiply-adds (two operations each) out of the first-level cache
  double read_gbytes_per_s = 0;  // streaming reads from memory
};

/// With `threads` threads (0: physical cores, as the backend) at an instruction set ("": the best).
/// Takes about a second and 512 MiB.
MachineLimits measure_machine(int threads, const std::string& isa);

}  // namespace cairn::cli
