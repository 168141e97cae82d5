// SPDX-License-Identifier: Apache-2.0
// Every function of kernels/cuda/{memory,ptx}.cuh against a plain loop.
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/dtype.hpp"
#include "tests/simt/memory.hpp"
#include "tests/simt/ptx_kernels.cuh"
#include "tests/support/catch.hpp"

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
  const std::vector<std::uint32_t> words = out.read();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t m = 0; m < kCount; ++m) {
      for (std::size_t half = 0; half < 2; ++half) {
        std::size_t row = lane / 4;
        std::size_t column = lane % 4 * 2 + half;
        if (kTranspose) std::swap(row, column);
        const std::uint32_t got = words[lane * kCount + m] >> (16 * half) & 0xffffU;
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
  const std::vector<float> got = device_d.read();
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      double want = d[row * 8 + column];
      for (std::size_t k = 0; k < kDepth; ++k) {
        want += value(a[row * kDepth + k]) * value(b[k * 8 + column]);
      }
      REQUIRE(got[row * 8 + column] == static_cast<float>(want));
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
    const std::vector<std::byte> got = out.read();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool copied = static_cast<std::int32_t>(i / kBytes % 64) < live;
      REQUIRE(got[i] == (copied ? in[i] : std::byte{0}));
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
  REQUIRE(std::memcmp(in.data(), middle.read().data(), 32 * sizeof(T)) == 0);
  REQUIRE(std::memcmp(in.data(), out.read().data(), 32 * sizeof(T)) == 0);
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
  const std::vector<std::uint32_t> words = out.read();
  for (std::size_t i = 0; i < in.size(); ++i) {
    REQUIRE((words[i / 2] >> (16 * (i % 2)) & 0xffffU) == to_bf16(in[i]).bits);
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

}  // namespace cairn::simt
