// SPDX-License-Identifier: Apache-2.0
// Kernels with one bug each, for the sanitizers to find.  usage: simt_planted BUG
// "nothing" runs all of them without their bugs, which must be silent.
#include <cstdio>
#include <map>
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "tests/simt/harness/buffer.hpp"

namespace cairn::simt {
namespace {

using namespace cairn::kernels::cuda;  // NOLINT: the kernels are meant to read like those there

struct Args {
  const float* in;  // [64]
  float* out;       // [64]
  bool bug;
};

/// What all of them share: the buffers and the launch.
template <class Kernel>
void run_with(bool bug) {
  const Buffer<float> in(std::vector<float>(64, 1.0F));
  Buffer<float> out(64);
  launch<Kernel>({2}, nullptr, {in.data(), out.data(), bug});
}

struct Base {
  using Args = simt::Args;
  static constexpr const char* kName = "planted";
  static constexpr int kThreads = 64;
  struct Shared {
    alignas(16) float row[8][8];
  };
};

struct GlobalRead : Base {
  static void run(const Args& a, Shared&) {
    a.out[threadIdx.x] = a.in[threadIdx.x + (a.bug ? 1 : 0)];
  }
};

struct GlobalWrite : Base {
  static void run(const Args& a, Shared&) {
    a.out[threadIdx.x + (a.bug ? 1 : 0)] = a.in[threadIdx.x];
  }
};

struct SharedWrite : Base {
  static void run(const Args& a, Shared& s) {
    float* flat = &s.row[0][0];
    flat[threadIdx.x + (a.bug ? 1 : 0)] = 1.0F;
  }
};

/// Into the next row: only the typed layout shows it, to the undefined-behaviour sanitizer.
struct SharedRow : Base {
  static void run(const Args& a, Shared& s) {
    if (threadIdx.x >= 56) return;
    s.row[threadIdx.x / 8][threadIdx.x % 8 + (a.bug ? 1 : 0)] = 1.0F;
  }
};

struct ReadAfterWrite : Base {
  static void run(const Args& a, Shared& s) {
    float* flat = &s.row[0][0];
    flat[threadIdx.x] = a.in[threadIdx.x];
    if (!a.bug) __syncthreads();
    a.out[threadIdx.x] = flat[63 - threadIdx.x];
  }
};

struct WriteAfterRead : Base {
  static void run(const Args& a, Shared& s) {
    float* flat = &s.row[0][0];
    for (int round = 0; round < 2; ++round) {
      flat[threadIdx.x] = a.in[threadIdx.x];
      __syncthreads();
      a.out[threadIdx.x] = flat[63 - threadIdx.x];
      if (!a.bug) __syncthreads();
    }
  }
};

/// A shuffle moves its value and orders nothing.
struct WarpLockstep : Base {
  static void run(const Args& a, Shared& s) {
    float* flat = &s.row[0][0];
    flat[threadIdx.x] = __shfl_sync(kFullMask, a.in[threadIdx.x], 3);
    __shfl_sync(kFullMask, 0, 0);
    if (!a.bug) __syncwarp();
    a.out[threadIdx.x] = flat[threadIdx.x ^ 31];
  }
};

/// The wait is for this thread's copies only.
struct CopyBarrier : Base {
  static void run(const Args& a, Shared& s) {
    float* flat = &s.row[0][0];
    copy_async<4>(flat + threadIdx.x, a.in + threadIdx.x);
    copy_async_commit();
    copy_async_wait<0>();
    if (!a.bug) __syncthreads();
    a.out[threadIdx.x] = flat[63 - threadIdx.x];
  }
};

/// Starts to refill the stage that others still read.
struct CopyTooEarly : Base {
  static void run(const Args& a, Shared& s) {
    float* flat = &s.row[0][0];
    for (int round = 0; round < 2; ++round) {
      copy_async<4>(flat + threadIdx.x, a.in + threadIdx.x);
      copy_async_commit();
      copy_async_wait<0>();
      __syncthreads();
      a.out[threadIdx.x] = flat[63 - threadIdx.x];
      if (!a.bug) __syncthreads();
    }
  }
};

const std::map<std::string, void (*)(bool)> kBugs = {
    {"global_read", run_with<GlobalRead>},          {"global_write", run_with<GlobalWrite>},
    {"shared_write", run_with<SharedWrite>},        {"shared_row", run_with<SharedRow>},
    {"read_after_write", run_with<ReadAfterWrite>}, {"write_after_read", run_with<WriteAfterRead>},
    {"warp_lockstep", run_with<WarpLockstep>},      {"copy_barrier", run_with<CopyBarrier>},
    {"copy_too_early", run_with<CopyTooEarly>},
};

}  // namespace
}  // namespace cairn::simt

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  if (name == "nothing") {
    for (const auto& [bug, run] : cairn::simt::kBugs) run(false);
    return 0;
  }
  const auto found = cairn::simt::kBugs.find(name);
  if (found == cairn::simt::kBugs.end()) {
    std::fprintf(stderr, "usage: simt_planted nothing|BUG\n");
    return 2;
  }
  found->second(true);
}
