// SPDX-License-Identifier: Apache-2.0
// Kernels, and uses of streams, with one bug each, for the sanitizers to find.  usage: simt_planted
// BUG "nothing" runs all of them without their bugs, which must be silent.
#include <cstdio>
#include <map>
#include <string>

#include "kernels/cuda/device.hpp"
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

struct Double : Base {
  static void run(const Args& a, Shared&) { a.out[threadIdx.x] = 2 * a.in[threadIdx.x]; }
};

/// What the streams of one device share. The host waits for each, so that the values are right in
/// any case.
struct Streams {
  DeviceBuffer in{0, 256, "numbers"};
  DeviceBuffer out{0, 256, "numbers"};
  PinnedBuffer host{0, 256, "staging"};
  Event event{0};
  WorkStream first{0};
  WorkStream second{0};

  Streams() {
    first.zero(in.data(), 256);
    first.finish();
  }
  void run(WorkStream& stream, const DeviceBuffer& from, const DeviceBuffer& to) {
    launch<Double>({1}, stream.get(), {from.as<float>(), to.as<float>(), false});
  }
  void order(bool bug) {
    event.record(first.get());
    if (!bug) second.wait_for(event);
  }
  void finish() {
    first.finish();
    second.finish();
  }
};

void streams_launch(bool bug) {
  Streams s;
  s.run(s.first, s.in, s.out);
  s.order(bug);
  s.run(s.second, s.out, s.in);
  s.finish();
}

void streams_copy(bool bug) {
  Streams s;
  s.run(s.first, s.in, s.out);
  s.order(bug);
  s.second.copy_to_host(s.host.data(), s.out.data(), 256);
  s.finish();
}

void streams_overwrite(bool bug) {
  Streams s;
  s.first.copy_to_host(s.host.data(), s.in.data(), 256);
  s.order(bug);
  s.run(s.second, s.out, s.in);
  s.finish();
}

/// The host fills the staging buffer again while its copy is only known to have begun.
void streams_staging(bool bug) {
  Streams s;
  s.first.copy_to_device(s.in.data(), s.host.data(), 256);
  s.order(false);
  s.run(s.second, s.in, s.out);
  if (!bug) s.finish();
  s.host.as<float>()[0] = 1.0F;
  s.finish();
}

const std::map<std::string, void (*)(bool)> kBugs = {
    {"global_read", run_with<GlobalRead>},
    {"global_write", run_with<GlobalWrite>},
    {"shared_write", run_with<SharedWrite>},
    {"shared_row", run_with<SharedRow>},
    {"read_after_write", run_with<ReadAfterWrite>},
    {"write_after_read", run_with<WriteAfterRead>},
    {"warp_lockstep", run_with<WarpLockstep>},
    {"copy_barrier", run_with<CopyBarrier>},
    {"copy_too_early", run_with<CopyTooEarly>},
    {"streams_launch", streams_launch},
    {"streams_copy", streams_copy},
    {"streams_overwrite", streams_overwrite},
    {"streams_staging", streams_staging},
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
