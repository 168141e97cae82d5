// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/simt/support.hpp"

namespace cairn::simt {
namespace {

/// What each lane of a warp got from `operation`.
template <class T, class Operation>
std::vector<T> lanes(const Operation& operation) {
  Buffer<T> out(32);
  T* to = out.data();
  run_threads<32>({1}, [to, &operation](std::byte*) { to[threadIdx.x] = operation(); });
  return out.read();
}

int lane_of_thread() { return static_cast<int>(threadIdx.x); }

}  // namespace

TEST_CASE("shuffles move values as their definitions say, at every width") {
  for (int width = 1; width <= 32; width *= 2) {
    for (int by = 0; by < 32; ++by) {
      const auto step = static_cast<unsigned>(by);
      const auto direct =
          lanes<int>([=] { return __shfl_sync(0xffffffffU, lane_of_thread() * 10, by, width); });
      const auto flipped = lanes<int>(
          [=] { return __shfl_xor_sync(0xffffffffU, lane_of_thread() * 10, by, width); });
      const auto up = lanes<int>(
          [=] { return __shfl_up_sync(0xffffffffU, lane_of_thread() * 10, step, width); });
      const auto down = lanes<int>(
          [=] { return __shfl_down_sync(0xffffffffU, lane_of_thread() * 10, step, width); });
      for (int i = 0; i < 32; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const int begin = i / width * width;
        const int end = begin + width;
        REQUIRE(direct[at] == 10 * (begin + by % width));
        REQUIRE(flipped[at] == 10 * ((i ^ by) < end ? i ^ by : i));
        REQUIRE(up[at] == 10 * (i - by >= begin ? i - by : i));
        REQUIRE(down[at] == 10 * (i + by < end ? i + by : i));
      }
    }
  }
}

TEST_CASE("a shuffle carries 8 bytes and floats unchanged") {
  const auto wide = lanes<std::uint64_t>(
      [] { return __shfl_sync(0xffffffffU, 0x0123456789abcdefULL + threadIdx.x, 5); });
  REQUIRE(wide == std::vector<std::uint64_t>(32, 0x0123456789abcdefULL + 5));
  const auto single = lanes<float>(
      [] { return __shfl_xor_sync(0xffffffffU, 0.1F * static_cast<float>(threadIdx.x), 31); });
  for (int i = 0; i < 32; ++i) {
    REQUIRE(single[static_cast<std::size_t>(i)] == 0.1F * static_cast<float>(31 - i));
  }
}

TEST_CASE("votes see every lane of their mask and no other") {
  const auto odd = [] { return static_cast<int>(threadIdx.x % 2); };
  REQUIRE(lanes<unsigned>([&] { return __ballot_sync(0xffffffffU, odd()); }) ==
          std::vector<unsigned>(32, 0xaaaaaaaaU));
  // Halves vote apart, at the same time.
  const auto halves = lanes<unsigned>([&] {
    const unsigned mask = threadIdx.x < 16 ? 0x0000ffffU : 0xffff0000U;
    return __ballot_sync(mask, odd());
  });
  for (std::size_t i = 0; i < 32; ++i) REQUIRE(halves[i] == (i < 16 ? 0xaaaaU : 0xaaaa0000U));
  const auto any = lanes<int>([] {
    const unsigned mask = threadIdx.x < 16 ? 0x0000ffffU : 0xffff0000U;
    return __any_sync(mask, threadIdx.x == 3 ? 1 : 0) + 2 * __all_sync(mask, threadIdx.x >= 16);
  });
  for (std::size_t i = 0; i < 32; ++i) REQUIRE(any[i] == (i < 16 ? 1 : 2));
}

TEST_CASE("reductions fold the lanes of their mask") {
  const auto value = [] { return lane_of_thread() * 7 % 32 - 9; };
  const auto got = lanes<int>([&] {
    const unsigned mask = threadIdx.x < 8 ? 0x000000ffU : 0xffffff00U;
    return __reduce_add_sync(mask, value()) * 10000 + __reduce_min_sync(mask, value()) * 100 +
           __reduce_max_sync(mask, value());
  });
  for (const auto& [first, last] : {std::pair{0, 8}, {8, 32}}) {
    std::vector<int> all;
    int sum = 0;
    for (int i = first; i < last; ++i) {
      all.push_back(i * 7 % 32 - 9);
      sum += all.back();
    }
    const int want = sum * 10000 + *std::min_element(all.begin(), all.end()) * 100 +
                     *std::max_element(all.begin(), all.end());
    for (int i = first; i < last; ++i) REQUIRE(got[static_cast<std::size_t>(i)] == want);
  }
}

TEST_CASE("lanes that pass a __syncwarp see what the others wrote before it") {
  Buffer<int> out(64);
  int* to = out.data();
  run_threads<64, 256>({1}, [to](std::byte* shared) {
    int* value = reinterpret_cast<int*>(shared);
    const unsigned t = threadIdx.x;
    for (int round = 0; round < 10; ++round) {
      value[t] = static_cast<int>(t) * round;
      __syncwarp();
      to[t] = value[t ^ 31];
      __syncwarp();
    }
  });
  for (int i = 0; i < 64; ++i) REQUIRE(out.data()[i] == 9 * (i ^ 31));
}

}  // namespace cairn::simt
