// SPDX-License-Identifier: Apache-2.0
// Every function of kernels/cuda/{memory,ptx}.cuh against a plain loop.
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/dtype.hpp"
#include "tests/simt/ptx_kernels.cuh"
#include "tests/simt/support.hpp"

namespace cairn::simt {
namespace {

std::vector<std::uint16_t> counting_up(std::size_t n) {
  std::vector<std::uint16_t> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::uint16_t>(i * 257 + 1);
  return v;
}

template <int kCount, bool kTranspose>
void check_load_matrices() {
  const std::vector<std::uint16_t> in = counting_up(64 * kCount);
  const Buffer<std::uint16_t> device_in(in);
  Buffer<std::uint32_t> out(32 * kCount);
  launch<LoadMatrices<kCount, kTranspose>>({1}, nullptr, {device_in.data(), out.data()});
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t m = 0; m < kCount; ++m) {
      for (std::size_t half = 0; half < 2; ++half) {
        std::size_t row = lane / 4;
        std::size_t column = lane % 4 * 2 + half;
        if (kTranspose) std::swap(row, column);
        const std::uint32_t got = out.data()[lane * kCount + m] >> (16 * half) & 0xffffU;
        REQUIRE(got == in[m * 64 + row * 8 + column]);
      }
    }
  }
}

/// `want` is exact in fp64: up to 16 products of 11-bit integers by halves.
template <MmaKind kKind>
void check_multiply(std::uint32_t seed) {
  constexpr bool kBf16 = kKind == MmaKind::bf16_16x8x16;
  constexpr int kDepth = MultiplyTile<kKind>::kDepth;
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> integers(-120, 120);
  const auto bits = [&](std::size_t n) {
    std::vector<std::uint16_t> v(n);
    for (std::uint16_t& x : v) {
      const float value = 0.25F * static_cast<float>(integers(random));
      x = kBf16 ? to_bf16(value).bits : to_f16(value).bits;
    }
    return v;
  };
  const auto value = [](std::uint16_t x) {
    return static_cast<double>(kBf16 ? to_float(Bf16{x}) : to_float(F16{x}));
  };
  const auto a = bits(16 * kDepth);
  const auto b = bits(8 * kDepth);
  std::vector<float> d(128);
  for (float& x : d) x = static_cast<float>(integers(random));
  const Buffer<std::uint16_t> device_a(a);
  const Buffer<std::uint16_t> device_b(b);
  Buffer<float> device_d(d);
  launch<MultiplyTile<kKind>>({1}, nullptr, {device_a.data(), device_b.data(), device_d.data()});
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      double want = d[row * 8 + column];
      for (std::size_t k = 0; k < kDepth; ++k) {
        want += value(a[row * kDepth + k]) * value(b[k * 8 + column]);
      }
      REQUIRE(device_d.data()[row * 8 + column] == static_cast<float>(want));
    }
  }
}

template <int kBytes>
void check_copy(std::int32_t live) {
  for (const std::int32_t rounds : {0, 1, 2, 3, 7}) {
    std::vector<std::byte> in(static_cast<std::size_t>(rounds) * 64 * kBytes);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 31 + 7);
    const Buffer<std::byte> device_in(in);
    Buffer<std::byte> out(in.size());
    launch<CopyRounds<kBytes>>({1}, nullptr, {device_in.data(), out.data(), rounds, live});
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool copied = static_cast<std::int32_t>(i / kBytes % 64) < live;
      REQUIRE(out.data()[i] == (copied ? in[i] : std::byte{0}));
    }
  }
}

template <class T>
void check_move() {
  std::vector<T> in(32);
  for (std::size_t i = 0; i < 32; ++i)
    std::memset(static_cast<void*>(&in[i]), static_cast<int>(i + 1), sizeof(T));
  const Buffer<T> device_in(in);
  Buffer<T> middle(32);
  Buffer<T> out(32);
  launch<MoveOne<T>>({1}, nullptr, {device_in.data(), middle.data(), out.data()});
  REQUIRE(std::memcmp(in.data(), middle.data(), 32 * sizeof(T)) == 0);
  REQUIRE(std::memcmp(in.data(), out.data(), 32 * sizeof(T)) == 0);
}

}  // namespace

TEST_CASE("load_matrices gives each lane the pair that ldmatrix documents") {
  check_load_matrices<1, false>();
  check_load_matrices<2, false>();
  check_load_matrices<4, false>();
}

TEST_CASE("load_matrices transposed gives each lane the pair of the transpose") {
  check_load_matrices<1, true>();
  check_load_matrices<2, true>();
  check_load_matrices<4, true>();
}

TEST_CASE("a tile multiplied in fragments equals the plain product") {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    check_multiply<MmaKind::bf16_16x8x16>(seed);
    check_multiply<MmaKind::f16_16x8x16>(seed);
    check_multiply<MmaKind::f16_16x8x8>(seed);
  }
}

TEST_CASE("two values pack into one word, the first low, rounded to nearest even") {
  std::vector<float> in(64);
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = (1.0F + 0x1p-10F * static_cast<float>(i)) * (i % 3 == 0 ? -1.0F : 1.0F);  // ties too
  }
  in[4] = 3.4e38F;
  in[5] = -0.0F;
  const Buffer<float> device_in(in);
  Buffer<std::uint32_t> out(32);
  launch<PackPair>({1}, nullptr, {device_in.data(), out.data()});
  for (std::size_t i = 0; i < in.size(); ++i) {
    REQUIRE((out.data()[i / 2] >> (16 * (i % 2)) & 0xffffU) == to_bf16(in[i]).bits);
  }
}

TEST_CASE("asynchronous copies bring every byte, and zeros for dead lanes") {
  check_copy<4>(64);
  check_copy<8>(64);
  check_copy<16>(64);
  check_copy<4>(0);
  check_copy<8>(1);
  check_copy<16>(63);
}

TEST_CASE("loads and stores move values of 2 to 16 bytes unchanged") {
  check_move<Bf16>();
  check_move<float>();
  check_move<Vec<float, 2>>();
  check_move<Vec<float, 4>>();
}

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
