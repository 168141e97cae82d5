// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "tests/simt/support.hpp"

namespace cairn::simt {

TEST_CASE("every thread of every block runs once and knows where it is") {
  Buffer<int> visits(std::vector<int>(2 * 3 * 2 * 96, 0));
  int* count = visits.data();
  run_threads<96>({2, 3, 2}, [count](std::byte*) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    count[block * blockDim.x + threadIdx.x] += 1;
  });
  REQUIRE(visits.read() == std::vector<int>(visits.size(), 1));
}

TEST_CASE("an empty grid launches nothing") {
  const std::int64_t before = launches();
  run_threads<32>({0}, [](std::byte*) { fault("runs"); });
  REQUIRE(launches() == before);
  run_threads<32>({1}, [](std::byte*) {});
  REQUIRE(launches() == before + 1);
}

TEST_CASE("a barrier shows what the others wrote before it, in a block of any size") {
  const auto check_block = [](auto threads) {
    constexpr int n = decltype(threads)::value;
    Buffer<int> out(3 * n);
    int* to = out.data();
    run_threads<n, n * sizeof(int)>({3}, [to](std::byte* shared) {
      int* value = reinterpret_cast<int*>(shared);
      const int t = static_cast<int>(threadIdx.x);
      value[t] = t;
      for (int round = 0; round < 3; ++round) {
        __syncthreads();
        const int next = value[(t + 1) % n];
        __syncthreads();
        value[t] = next;
      }
      to[static_cast<int>(blockIdx.x) * n + t] = value[t];
    });
    for (int i = 0; i < 3 * n; ++i) REQUIRE(out.data()[i] == (i % n + 3) % n);
  };
  check_block(std::integral_constant<int, 32>());
  check_block(std::integral_constant<int, 224>());
  check_block(std::integral_constant<int, 1024>());
}

TEST_CASE("threads that have exited are not waited for") {
  Buffer<int> seen(std::vector<int>(1, 0));
  int* to = seen.data();
  run_threads<64>({5}, [to](std::byte*) {
    if (threadIdx.x % 32 >= 20) return;
    __syncthreads();
    __syncwarp();
    atomicAdd(to, __syncthreads_count(threadIdx.x % 2 == 0 ? 1 : 0));
  });
  REQUIRE(seen.read()[0] == 5 * 40 * 20);
}

TEST_CASE("shared memory is all ones at the start of every block") {
  Buffer<int> clean(std::vector<int>(1, 0));
  int* to = clean.data();
  run_threads<32, 512>({4}, [to](std::byte* shared) {
    const auto* word = reinterpret_cast<const std::uint32_t*>(shared);
    bool poisoned = true;
    for (int i = 0; i < 128; ++i) poisoned = poisoned && word[i] == 0xffffffffU;
    __syncthreads();
    std::memset(shared, 0, 512);
    atomicAdd(to, poisoned ? 1 : 0);
  });
  REQUIRE(clean.read()[0] == 128);
}

TEST_CASE("blocks start at different threads") {
  Buffer<unsigned> first(64);
  unsigned* to = first.data();
  run_threads<128>({64},
                   [to](std::byte*) { atomicCAS(&to[blockIdx.x], 0xffffffffU, threadIdx.x); });
  const std::vector<unsigned> seen = first.read();
  REQUIRE(std::set<unsigned>(seen.begin(), seen.end()).size() > 20);
}

TEST_CASE("atomics on one place lose nothing") {
  Buffer<int> place(std::vector<int>{0, -1000, 1000, 0});
  Buffer<float> sum(std::vector<float>{0.0F});
  Buffer<int> swaps(std::vector<int>(256, -1));
  int* p = place.data();
  float* s = sum.data();
  int* old = swaps.data();
  run_threads<128>({2}, [p, s, old](std::byte*) {
    const int id = static_cast<int>(blockIdx.x * 128 + threadIdx.x);
    atomicAdd(&p[0], id);
    atomicMax(&p[1], id);
    atomicMin(&p[2], id);
    atomicAdd(s, 0.5F);
    old[id] = atomicExch(&p[3], id + 1);
  });
  REQUIRE(place.data()[0] == 255 * 128);
  REQUIRE(place.data()[1] == 255);
  REQUIRE(place.data()[2] == 0);
  REQUIRE(sum.data()[0] == 128.0F);
  // Every value but the last was taken out by exactly one other thread.
  std::vector<int> out = swaps.read();
  out.push_back(place.data()[3]);
  std::sort(out.begin(), out.end());
  for (int i = 0; i <= 256; ++i) REQUIRE(out[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("launches of several OS threads run one after another") {
  Buffer<int> count(std::vector<int>(1, 0));
  int* to = count.data();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([to] {
      for (int j = 0; j < 5; ++j) {
        run_threads<64>({2}, [to](std::byte*) {
          __syncthreads();
          atomicAdd(to, 1);
        });
      }
    });
  }
  for (std::thread& t : threads) t.join();
  REQUIRE(count.read()[0] == 3 * 5 * 128);
}

TEST_CASE("a divergent barrier is reported with who waits where") {
  REQUIRE(
      contains(fault_of<32>([](std::byte*) {
                 if (threadIdx.x < 16) {
                   __syncthreads();
                 } else {
                   __shfl_sync(0xffffffffU, 1, 0);
                 }
               }),
               "deadlock: 16 threads at __syncthreads, 16 in a warp operation, 0 exited of 32"));
}

TEST_CASE("misuse of warp operations is reported") {
  REQUIRE(contains(fault_of<32>([](std::byte*) { __ballot_sync(0x0000ffffU, 1); }),
                   "is not in the mask 0000ffff"));
  REQUIRE(contains(fault_of<32>([](std::byte*) {
                     __ballot_sync(threadIdx.x == 0 ? 0x00000003U : 0xffffffffU, 1);
                   }),
                   "disagree about the mask"));
  REQUIRE(contains(fault_of<32>([](std::byte*) {
                     if (threadIdx.x < 16) __shfl_sync(0x0000ffffU, 1, 16);
                   }),
                   "reads the value of lane 16, which gave none"));
  REQUIRE(contains(fault_of<32>([](std::byte*) {
                     if (threadIdx.x == 7) return;
                     __shfl_sync(0xffffffffU, 1, 7);
                   }),
                   "reads the value of lane 7, which gave none"));
}

TEST_CASE("accesses that hardware refuses are reported with their line") {
  Buffer<float> data(8);
  const float* p = data.data();
  REQUIRE(contains(fault_of<32>([p](std::byte*) {
                     using kernels::cuda::load_global;
                     load_global(reinterpret_cast<const std::uint64_t*>(p + 1));
                   }),
                   "an access of 8 bytes is misaligned"));
  REQUIRE(contains(fault_of<32, 64>([](std::byte* shared) {
                     kernels::cuda::load_shared(reinterpret_cast<const float*>(shared) + 16);
                   }),
                   "4 bytes at offset 64 of 64 bytes of shared memory"));
  REQUIRE(contains(fault_of<32, 64>([](std::byte* shared) {
                     kernels::cuda::load_global(reinterpret_cast<const float*>(shared));
                   }),
                   "shared memory taken for global"));
}

TEST_CASE("after a fault the next launch starts clean") {
  for (int i = 0; i < 3; ++i) {
    REQUIRE_FALSE(fault_of<256>([](std::byte*) {
                    if (threadIdx.x == 100) fault("stops at %d", 100);
                    __syncthreads();
                  }).empty());
    Buffer<int> count(std::vector<int>(1, 0));
    int* to = count.data();
    run_threads<256>({2}, [to](std::byte*) {
      __syncthreads();
      atomicAdd(to, __all_sync(0xffffffffU, 1));
    });
    REQUIRE(count.read()[0] == 512);
  }
}

TEST_CASE("a launch beyond the hardware's limits is refused") {
  REQUIRE_THROWS_AS(run_threads<32>({1, 65536}, [](std::byte*) {}), InvariantError);
  REQUIRE_THROWS_AS(run_threads<32>({std::int64_t{1} << 31}, [](std::byte*) {}), InvariantError);
  LaunchShape odd;
  odd.grid = {1, 1, 1};
  odd.threads = 40;
  REQUIRE_THROWS_AS(run(
                        odd, [](void*) {}, nullptr),
                    Fault);
}

#if !defined(__SANITIZE_ADDRESS__)  // which stops the program at the write itself
TEST_CASE("writing beside a buffer is reported") {
  Buffer<float> out(33);
  float* p = out.data();
  REQUIRE(contains(fault_of<32>([p](std::byte*) { p[threadIdx.x + 2] = 1.0F; }),
                   "wrote outside a buffer"));
  std::memset(p + 33, 0xa5, sizeof(float));
  REQUIRE(fault_of<32>([p](std::byte*) { p[threadIdx.x + 1] = 1.0F; }).empty());
}
#endif

}  // namespace cairn::simt
