// SPDX-License-Identifier: Apache-2.0
// The counters against cases computed by hand.
#include "tests/simt/harness/counters.hpp"

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vec.cuh"
#include "tests/simt/support.hpp"

namespace cairn::simt {
namespace {

using namespace cairn::kernels::cuda;  // NOLINT: the bodies are meant to read like kernels

template <int kThreads, std::size_t kSharedBytes = 16, class Body>
Counters counted(const Body& body, const Grid& grid = {1}) {
  Counting counting;
  run_threads<kThreads, kSharedBytes>(grid, body);
  return counting.of("lambda");
}

struct Traffic {
  std::int64_t requests, bytes, sectors;
};
bool operator==(const GlobalTraffic& a, const Traffic& b) {
  return a.requests == b.requests && a.bytes == b.bytes && a.sectors == b.sectors;
}

struct Waves {
  std::int64_t requests, wavefronts, conflicts;
};
bool operator==(const SharedTraffic& a, const Waves& b) {
  return a.requests == b.requests && a.wavefronts == b.wavefronts && a.conflicts == b.conflicts;
}

/// Wavefronts of one warp that reads T at byte offset `at(lane)` of 16 KiB.
template <class T, class At>
SharedTraffic shared_loads(const At& at) {
  return counted<32, 16384>([&](std::byte* shared) {
           load_shared(reinterpret_cast<const T*>(shared + at(threadIdx.x)));
         })
      .shared;
}

/// Sectors of one warp that reads T at byte offset `at(lane)`.
template <class T, class At>
GlobalTraffic global_loads(const At& at) {
  const Buffer<std::byte> data(16384);
  const std::byte* p = data.data();
  return counted<32>(
             [&](std::byte*) { load_global(reinterpret_cast<const T*>(p + at(threadIdx.x))); })
      .loads;
}

}  // namespace

TEST_CASE("sectors of a warp's access to global memory") {
  using F4 = Vec<float, 4>;
  REQUIRE(global_loads<float>([](unsigned t) { return 4 * t; }) == Traffic{1, 128, 4});
  REQUIRE(global_loads<F4>([](unsigned t) { return 16 * t; }) == Traffic{1, 512, 16});
  REQUIRE(global_loads<float>([](unsigned t) { return 32 * t; }) == Traffic{1, 128, 32});
  REQUIRE(global_loads<float>([](unsigned) { return 64U; }) == Traffic{1, 4, 1});
  REQUIRE(global_loads<float>([](unsigned t) { return 4 * (31 - t); }) == Traffic{1, 128, 4});
  REQUIRE(global_loads<Bf16>([](unsigned t) { return 2 * t + 16; }) == Traffic{1, 64, 3});
  REQUIRE(global_loads<F4>([](unsigned t) { return 32 * t; }).efficiency() == 0.5);
}

TEST_CASE("wavefronts and bank conflicts of a warp's access to shared memory") {
  using F2 = Vec<float, 2>;
  using F4 = Vec<float, 4>;
  REQUIRE(shared_loads<float>([](unsigned t) { return 4 * t; }) == Waves{1, 1, 0});
  REQUIRE(shared_loads<float>([](unsigned t) { return 8 * t; }) == Waves{1, 2, 1});
  REQUIRE(shared_loads<float>([](unsigned t) { return 128 * t; }) == Waves{1, 32, 31});
  REQUIRE(shared_loads<float>([](unsigned t) { return 132 * t; }) == Waves{1, 1, 0});
  REQUIRE(shared_loads<float>([](unsigned) { return 40U; }) == Waves{1, 1, 0});
  REQUIRE(shared_loads<float>([](unsigned t) { return 4 * (t / 2); }) == Waves{1, 1, 0});
  REQUIRE(shared_loads<Bf16>([](unsigned t) { return 2 * t; }) == Waves{1, 1, 0});
  REQUIRE(shared_loads<F2>([](unsigned t) { return 8 * t; }) == Waves{1, 2, 0});
  REQUIRE(shared_loads<F4>([](unsigned t) { return 16 * t; }) == Waves{1, 4, 0});
  // Rows of 128 bytes: the eight lanes of a group meet in the same four banks.
  REQUIRE(shared_loads<F4>([](unsigned t) { return 128 * t; }) == Waves{1, 32, 28});
  REQUIRE(shared_loads<F4>([](unsigned t) { return 144 * t; }) == Waves{1, 4, 0});
}

TEST_CASE("load_matrices counts one wavefront a matrix when its rows lie in different banks") {
  const auto of_rows = [](unsigned pitch) {
    return counted<32, 8192>([pitch](std::byte* shared) {
             std::uint32_t fragment[4];
             load_matrices<4>(shared + pitch * (threadIdx.x % 32), fragment);
           })
        .shared;
  };
  REQUIRE(of_rows(16) == Waves{1, 4, 0});
  REQUIRE(of_rows(128) == Waves{1, 32, 28});
  REQUIRE(of_rows(32) == Waves{1, 8, 4});
}

TEST_CASE("asynchronous copies count as a global load and a shared store") {
  const Buffer<float> data(std::vector<float>(64, 1.0F));
  const float* p = data.data();
  const Counters got = counted<32, 256>([p](std::byte* shared) {
    const unsigned t = threadIdx.x;
    copy_async<8>(shared + 8 * t, p + 2 * t, t < 16);
    copy_async_commit();
    copy_async_wait<0>();
  });
  REQUIRE(got.loads == Traffic{1, 128, 4});
  REQUIRE(got.shared == Waves{1, 2, 0});
}

TEST_CASE("accesses are counted per warp, source line and round") {
  const Buffer<float> in(std::vector<float>(4096, 1.0F));
  Buffer<float> out(4096);
  const float* from = in.data();
  float* to = out.data();
  const Counters got = counted<64>(
      [from, to](std::byte*) {
        const unsigned at = blockIdx.x * 64 + threadIdx.x;
        float sum = 0.0F;
        // The last round has half of the lanes.
        for (unsigned i = 0; i < (threadIdx.x % 32 < 16 ? 3U : 2U); ++i) {
          sum += load_read_only(from + i * 512 + at);
        }
        store_global(to + at, sum + load_read_only(from + at));
      },
      {2});
  // 4 warps: two full rounds, one half round, one more load; one store.
  REQUIRE(got.loads == Traffic{16, 4 * (128 + 128 + 64 + 128), 4 * (4 + 4 + 2 + 4)});
  REQUIRE(got.stores == Traffic{4, 4 * 128, 16});
  REQUIRE(got.launches == 1);
}

TEST_CASE("counts are kept by kernel, and only while a Counting lives") {
  run_threads<32>({1}, [](std::byte*) {});
  Counting counting;
  run_threads<32>({1}, [](std::byte*) {});
  run_threads<32>({1}, [](std::byte*) {});
  REQUIRE(counting.of("lambda").launches == 2);
  REQUIRE(counting.of("another").launches == 0);
  REQUIRE(counting.total().launches == 2);
  REQUIRE_THROWS_AS(Counting(), std::logic_error);
}

TEST_CASE("writing what the launch loads as read-only is reported while counting") {
  Buffer<float> data(std::vector<float>(32, 1.0F));
  float* p = data.data();
  Counting counting;
  REQUIRE(contains(fault_of<32>([p](std::byte*) {
                     store_global(p + threadIdx.x, load_read_only(p + threadIdx.x));
                   }),
                   "writes what it loads as read-only"));
  REQUIRE(fault_of<32>([p](std::byte*) {
            store_global(p + threadIdx.x, load_global(p + threadIdx.x));
          }).empty());
}

TEST_CASE("blocks that race for global memory are reported while counting") {
  Buffer<float> data(std::vector<float>(128, 1.0F));
  float* p = data.data();
  const auto run = [p](Blocks blocks, unsigned store_stride, unsigned load_stride) {
    Counting counting(blocks);
    run_threads<32>({2}, [=](std::byte*) {
      const unsigned t = threadIdx.x;
      store_global(p + blockIdx.x * store_stride + t,
                   load_global(p + 64 + blockIdx.x * load_stride + t));
    });
  };
  REQUIRE_NOTHROW(run(Blocks::independent, 32, 32));
  REQUIRE_NOTHROW(run(Blocks::independent, 32, 0));  // both read the same words
  REQUIRE_THROWS_WITH(run(Blocks::independent, 31, 32), Catch::Contains("blocks race"));
  REQUIRE_THROWS_WITH(run(Blocks::independent, 64, 32), Catch::Contains("blocks race"));
  REQUIRE_NOTHROW(run(Blocks::may_meet, 64, 32));
}

}  // namespace cairn::simt
