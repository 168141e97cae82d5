// SPDX-License-Identifier: Apache-2.0
// What the accesses of a kernel cost on the machine: sectors of global memory and wavefronts of
// shared memory.
//
// Counted are load_*, store_*, copy_async (kernels/cuda/memory.cuh) and load_matrices (ptx.cuh);
// not plain dereferences and atomics. A warp's access is what its lanes do at one source line for
// the n-th time, so a lane that skips a round of a loop and takes a later one is counted with the
// wrong round.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace cairn::simt {

struct GlobalTraffic {
  std::int64_t requests = 0;  // accesses of a warp
  std::int64_t bytes = 0;     // distinct ones asked for, per request
  std::int64_t sectors = 0;   // of 32 bytes, distinct ones per request
  double efficiency() const {
    return sectors == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(32 * sectors);
  }
};

struct SharedTraffic {
  std::int64_t requests = 0;
  std::int64_t wavefronts = 0;  // 128 bytes at most each, one word a bank
  std::int64_t conflicts = 0;   // wavefronts beyond those that the bytes need
};

struct Counters {
  std::int64_t launches = 0;
  GlobalTraffic loads;
  GlobalTraffic stores;
  SharedTraffic shared;
  Counters& operator+=(const Counters& other);
};

/// Whether blocks of one launch may exchange data through global memory (ordered by atomics).
enum class Blocks { independent, may_meet };

/// Counts the launches during its life. One at a time; not during a launch. From the same accesses
/// it ends a launch with Fault that stores to a word it loads as read-only, or whose independent
/// blocks touch the same word, one of them storing.
class Counting {
 public:
  explicit Counting(Blocks blocks = Blocks::independent);
  ~Counting();
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  /// By kernel name; zeros for one that was not launched.
  Counters of(const std::string& kernel) const;
  Counters total() const;

 private:
  friend void count_block();
  friend void count_launch(const struct LaunchShape& shape);
  Blocks blocks_;
  std::map<std::string, Counters> kernels_;
};

}  // namespace cairn::simt
