// SPDX-License-Identifier: Apache-2.0
// What only the harness sees of asynchronous copies and matrix instructions.
#include "kernels/cuda/ptx.cuh"
#include "tests/simt/support.hpp"

namespace cairn::simt {

using namespace kernels::cuda;  // NOLINT: the kernels are meant to read like those there

TEST_CASE("an asynchronous copy lands at the wait for its group and not before") {
  const Buffer<std::uint32_t> in(std::vector<std::uint32_t>{11, 22, 33, 44});
  Buffer<std::uint32_t> out(9);
  const std::uint32_t* from = in.data();
  std::uint32_t* to = out.data();
  run_threads<32>({1}, [from, to](std::byte* shared) {
    if (threadIdx.x != 0) return;
    auto* stage = reinterpret_cast<std::uint32_t*>(shared);
    stage[0] = stage[1] = stage[2] = 5;
    copy_async<4>(stage, from);
    copy_async_commit();
    copy_async<4>(stage + 1, from + 1);
    copy_async_commit();
    copy_async<4>(stage + 2, from + 2);  // its group is still open
    for (int i = 0; i < 3; ++i) to[i] = stage[i];
    copy_async_wait<1>();
    for (int i = 0; i < 3; ++i) to[3 + i] = stage[i];
    copy_async_wait<0>();
    for (int i = 0; i < 3; ++i) to[6 + i] = stage[i];
    copy_async_commit();
    copy_async_wait<0>();
  });
  const std::uint32_t kUndefined = 0xffffffffU;
  REQUIRE(out.read() == std::vector<std::uint32_t>{kUndefined, kUndefined, kUndefined, 11,
                                                   kUndefined, kUndefined, 11, 22, kUndefined});
}

TEST_CASE("a copy that nobody waits for is reported") {
  const Buffer<std::uint32_t> in(std::vector<std::uint32_t>(32, 1));
  const std::uint32_t* from = in.data();
  REQUIRE(contains(fault_of<32, 128>([from](std::byte* shared) {
                     copy_async<4>(shared + 4 * threadIdx.x, from + threadIdx.x);
                     copy_async_commit();
                   }),
                   "exits with 1 asynchronous copies"));
  // A wait without a commit waits for nothing.
  REQUIRE(contains(fault_of<32, 128>([from](std::byte* shared) {
                     copy_async<4>(shared + 4 * threadIdx.x, from + threadIdx.x);
                     copy_async_wait<0>();
                   }),
                   "exits with 1 asynchronous copies"));
  REQUIRE(contains(fault_of<32, 128>([from](std::byte* shared) {
                     for (int i = 0; i < 200; ++i) copy_async<4>(shared, from);
                   }),
                   "has 128 asynchronous copies under way"));
}

TEST_CASE("tensor-core operations need the whole warp") {
  REQUIRE(contains(fault_of<32>([](std::byte*) {
                     if (threadIdx.x == 31) return;
                     float d[4] = {};
                     mma_f16_16x8x8(d, {0, 0}, 0);
                   }),
                   "calls an operation of all lanes, and some have exited"));
  REQUIRE(contains(fault_of<32>([](std::byte* shared) {
                     std::uint32_t fragment[1];
                     load_matrices<1>(shared + 2 * threadIdx.x, fragment);
                   }),
                   "16 bytes is misaligned"));
}

}  // namespace cairn::simt
