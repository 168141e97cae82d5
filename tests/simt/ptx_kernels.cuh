// SPDX-License-Identifier: Apache-2.0
// One small kernel per function of kernels/cuda/{memory,ptx}.cuh, run by the harness and compiled
// by nvcc (ptx_kernels.cu).
#pragma once

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::simt {

using namespace cairn::kernels::cuda;  // NOLINT: the kernels are meant to read like those there

/// Loads kCount matrices of `in` and writes each lane's words.
template <int kCount, bool kTranspose>
struct LoadMatrices {
  struct Args {
    const std::uint16_t* in;  // [kCount, 8, 8]
    std::uint32_t* out;       // [32, kCount]
  };
  static constexpr const char* kName = "load_matrices";
  static constexpr int kThreads = 32;
  struct Shared {
    alignas(16) std::uint16_t matrix[kCount][8][8];
  };

  static __device__ void run(const Args& a, Shared& shared) {
    const unsigned t = threadIdx.x;
    for (unsigned i = t; i < 64 * kCount; i += 32) {
      store_shared(&shared.matrix[i / 64][i / 8 % 8][i % 8], load_read_only(a.in + i));
    }
    __syncwarp();
    const unsigned row = t % (8 * kCount);
    std::uint32_t fragment[kCount];
    load_matrices<kCount, kTranspose>(&shared.matrix[row / 8][row % 8][0], fragment);
    for (int i = 0; i < kCount; ++i) store_global(a.out + t * kCount + i, fragment[i]);
  }
};

enum class MmaKind { bf16_16x8x16, f16_16x8x16, f16_16x8x8 };

/// d += a b, a and b through load_matrices, each lane's accumulators by the documented layout.
template <MmaKind kKind>
struct MultiplyTile {
  static constexpr int kDepth = kKind == MmaKind::f16_16x8x8 ? 8 : 16;
  struct Args {
    const std::uint16_t* a;  // [16, kDepth]
    const std::uint16_t* b;  // [kDepth, 8]
    float* d;                // [16, 8]
  };
  static constexpr const char* kName = "multiply_tile";
  static constexpr int kThreads = 32;
  struct Shared {
    alignas(16) std::uint16_t a[16][kDepth];
    alignas(16) std::uint16_t b[kDepth][8];
  };

  static __device__ void run(const Args& args, Shared& shared) {
    const unsigned t = threadIdx.x;
    for (unsigned i = t; i < 16 * kDepth; i += 32) shared.a[i / kDepth][i % kDepth] = args.a[i];
    for (unsigned i = t; i < 8 * kDepth; i += 32) shared.b[i / 8][i % 8] = args.b[i];
    __syncwarp();
    float* place[4];
    float d[4];
    for (unsigned j = 0; j < 4; ++j) {
      place[j] = args.d + (t / 4 + j / 2 * 8) * 8 + t % 4 * 2 + j % 2;
      d[j] = *place[j];
    }
    multiply(shared, d);
    for (int j = 0; j < 4; ++j) *place[j] = d[j];
  }

 private:
  static __device__ void multiply(const Shared& shared, float (&d)[4]) {
    const unsigned t = threadIdx.x;
    if constexpr (kDepth == 8) {
      std::uint32_t a[2];
      std::uint32_t b[1];
      load_matrices<2>(&shared.a[t % 16][0], a);
      load_matrices<1, true>(&shared.b[t % 8][0], b);
      mma_f16_16x8x8(d, a, b[0]);
    } else {
      std::uint32_t a[4];
      std::uint32_t b[2];
      load_matrices<4>(&shared.a[t % 16][t / 16 * 8], a);
      load_matrices<2, true>(&shared.b[t % 16][0], b);
      if constexpr (kKind == MmaKind::bf16_16x8x16) {
        mma_bf16_16x8x16(d, a, b);
      } else {
        mma_f16_16x8x16(d, a, b);
      }
    }
  }
};

/// Copies kBytes a thread and round through shared memory, two groups deep; zeros for the threads
/// from `live` on.
template <int kBytes>
struct CopyRounds {
  struct Args {
    const std::byte* in;  // [rounds, 64, kBytes]
    std::byte* out;       // [rounds, 64, kBytes]
    std::int32_t rounds;
    std::int32_t live;
  };
  static constexpr const char* kName = "copy_rounds";
  static constexpr int kThreads = 64;
  struct Shared {
    alignas(16) std::byte stage[3][64][kBytes];
  };
  struct alignas(kBytes) Piece {
    std::byte bytes[kBytes];
  };

  static __device__ void run(const Args& a, Shared& shared) {
    const unsigned t = threadIdx.x;
    const auto start = [&](int round) {
      if (round < a.rounds) {
        copy_async<kBytes>(shared.stage[round % 3][t], a.in + (round * 64 + t) * kBytes,
                           static_cast<int>(t) < a.live);
      }
      copy_async_commit();
    };
    start(0);
    start(1);
    for (int round = 0; round < a.rounds; ++round) {
      copy_async_wait<1>();
      __syncthreads();
      start(round + 2);  // into the stage that all have read before this barrier
      const unsigned other = 63 - t;
      const auto* piece = reinterpret_cast<const Piece*>(shared.stage[round % 3][other]);
      store_global(reinterpret_cast<Piece*>(a.out + (round * 64 + other) * kBytes),
                   load_shared(piece));
    }
  }
};

/// Moves each thread's T through every kind of load and store.
template <class T>
struct MoveOne {
  struct Args {
    const T* in;  // [32]
    T* middle;    // [32]
    T* out;       // [32]
  };
  static constexpr const char* kName = "move_one";
  static constexpr int kThreads = 32;
  struct Shared {
    alignas(16) T value[32];
  };
  static __device__ void run(const Args& a, Shared& shared) {
    const unsigned t = threadIdx.x;
    store_global(a.middle + t, load_read_only(a.in + t));
    store_shared(shared.value + t, load_global(a.middle + t));
    store_global(a.out + t, load_shared(shared.value + t));
  }
};

/// One word of two bf16 a thread.
struct PackPair {
  struct Args {
    const float* in;     // [32, 2]
    std::uint32_t* out;  // [32]
  };
  static constexpr const char* kName = "pack_pair";
  static constexpr int kThreads = 32;
  static __device__ void run(const Args& a) {
    const unsigned t = threadIdx.x;
    a.out[t] = pack_bf16(a.in[2 * t], a.in[2 * t + 1]);
  }
};

}  // namespace cairn::simt
