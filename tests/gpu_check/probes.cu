// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/probes.hpp"

#include "base/check.hpp"
#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT: the kernels are meant to read like those there

__device__ __forceinline__ std::int64_t cycles_now() {
#if defined(__CUDACC__)
  return clock64();
#else
  return 0;
#endif
}

struct Empty {
  struct Args {};
  static constexpr const char* kName = "empty";
  static constexpr int kThreads = 32;
  static __device__ void run(const Args&) {}
};

struct StreamRead {
  struct Args {
    const Vec<float, 4>* from;
    std::int64_t count;
    float* sink;
  };
  static constexpr const char* kName = "stream_read";
  static constexpr int kThreads = 256;
  static constexpr int kAtOnce = 8;
  static __device__ void run(const Args& a) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
    float sum = 0.0F;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
         i < a.count; i += kAtOnce * stride) {
      Vec<float, 4> v[kAtOnce] = {};
      CAIRN_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (i + j * stride < a.count) v[j] = load_read_only(a.from + i + j * stride);
      }
      CAIRN_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        sum += (v[j].lane[0] + v[j].lane[1]) + (v[j].lane[2] + v[j].lane[3]);
      }
    }
    if (sum == 1e30F) store_global(a.sink, sum);  // so that the loads are needed
  }
};

struct MatrixRate {
  struct Args {
    std::int32_t rounds;
    std::int64_t* cycles;
    float* sink;
  };
  static constexpr const char* kName = "matrix_rate";
  static constexpr int kThreads = 256;
  static __device__ void run(const Args& args) {
    const std::uint32_t word = 0x3c003c00U + threadIdx.x % 32;  // two small bf16
    const std::uint32_t a[4] = {word, word + 1, word + 2, word + 3};
    const std::uint32_t b[2] = {word + 4, word + 5};
    float d[8][4] = {};
    const std::int64_t begin = cycles_now();
    for (int round = 0; round < args.rounds; ++round) {
      CAIRN_UNROLL
      for (int j = 0; j < 8; ++j) mma_bf16_16x8x16(d[j], a, b);
    }
    const std::int64_t end = cycles_now();
    float sum = 0.0F;
    CAIRN_UNROLL
    for (int j = 0; j < 8; ++j) sum += (d[j][0] + d[j][1]) + (d[j][2] + d[j][3]);
    if (sum == 1e30F) store_global(args.sink, sum);
    if (blockIdx.x == 0 && threadIdx.x == 0) store_global(args.cycles, end - begin);
  }
};

/// A word of noise of an index.
__device__ __forceinline__ std::uint32_t noise(std::uint32_t seed, std::int64_t index) {
  std::uint32_t h = seed + static_cast<std::uint32_t>(index) * 0x9E3779B9U +
                    static_cast<std::uint32_t>(index >> 32) * 0x85EBCA6BU;
  h = (h ^ (h >> 16)) * 0x7FEB352DU;
  h = (h ^ (h >> 15)) * 0x846CA68BU;
  return h ^ (h >> 16);
}

__device__ __forceinline__ void place(std::uint32_t word, float& to) {
  to = static_cast<float>(word >> 8) * 0x1p-23F - 1.0F;
}
__device__ __forceinline__ void place(std::uint32_t word, Bf16& to) {
  to = {static_cast<std::uint16_t>(pack_bf16(static_cast<float>(word >> 8) * 0x1p-23F - 1.0F, 0))};
}
__device__ __forceinline__ void place(std::uint32_t word, std::int8_t& to) {
  to = static_cast<std::int8_t>(static_cast<int>(word % 255) - 127);
}

template <class T>
struct FillRandom {
  struct Args {
    T* to;
    std::int64_t count;
    std::uint32_t seed;
  };
  static constexpr const char* kName = "fill_random";
  static constexpr int kThreads = 256;
  static constexpr int kEach = sizeof(T) == 4 ? 4 : 8;
  static __device__ void run(const Args& a) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kEach;
    for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
         i < a.count; i += stride) {
      Vec<T, kEach> v;
      CAIRN_UNROLL
      for (int j = 0; j < kEach; ++j) place(noise(a.seed, i + j), v.lane[j]);
      store_global(reinterpret_cast<Vec<T, kEach>*>(a.to + i), v);
    }
  }
};

template <class T>
void fill(Stream stream, T* to, std::int64_t count, std::uint32_t seed) {
  check(count % 8 == 0, "fill_random: the count is a multiple of 8");
  using Kernel = FillRandom<T>;
  const std::int64_t blocks = ceil_div(count, Kernel::kThreads * Kernel::kEach);
  launch<Kernel>({blocks < 2048 ? blocks : 2048}, stream, {to, count, seed});
}

}  // namespace

void empty_kernel(Stream stream) { launch<Empty>({1}, stream, {}); }

void stream_read(Stream stream, const std::byte* from, std::int64_t bytes, std::int64_t blocks,
                 float* sink) {
  launch<StreamRead>({blocks}, stream,
                     {reinterpret_cast<const Vec<float, 4>*>(from), bytes / 16, sink});
}

void matrix_rate(Stream stream, std::int64_t blocks, std::int32_t rounds, std::int64_t* cycles,
                 float* sink) {
  launch<MatrixRate>({blocks}, stream, {rounds, cycles, sink});
}

void fill_random(Stream stream, Bf16* to, std::int64_t count, std::uint32_t seed) {
  fill(stream, to, count, seed);
}
void fill_random(Stream stream, float* to, std::int64_t count, std::uint32_t seed) {
  fill(stream, to, count, seed);
}
void fill_random(Stream stream, std::int8_t* to, std::int64_t count, std::uint32_t seed) {
  fill(stream, to, count, seed);
}

}  // namespace cairn::gpu_check
