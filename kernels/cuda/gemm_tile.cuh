// SPDX-License-Identifier: Apache-2.0
// What the blocks of gemm.cuh are made of: tiles in swizzled shared memory, the two forms of a
// weight, and the one product that all tiles use.
#pragma once

#include <cstddef>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/ptx.cuh"

namespace cairn::kernels::cuda {

/// A warp has 16 kRowTiles rows and 32 columns; kDepth values of k are a stage of the pipeline.
template <int kRowTilesOfWarp, int kWarpRows, int kWarpColumns, int kStageDepth, int kStageCount>
struct GemmTile {
  static constexpr int kRowTiles = kRowTilesOfWarp;
  static constexpr int kWarpsAcross = kWarpColumns;
  static constexpr int kRows = 16 * kRowTiles * kWarpRows;
  static constexpr int kColumns = 32 * kWarpColumns;
  static constexpr int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr int kDepth = kStageDepth;
  static constexpr int kStages = kStageCount;
};
using GemmTile16 = GemmTile<1, 1, 2, 64, 6>;
using GemmTile64 = GemmTile<2, 2, 2, 64, 4>;
using GemmTile128 = GemmTile<4, 2, 4, 32, 4>;

/// Where 16-byte piece `piece` of row `row` stands in its row: eight rows from a multiple of 8 on
/// have any one piece in all 32 banks.
template <int kRowBytes>
__device__ __forceinline__ int swizzled(int row, int piece) {
  constexpr int kPieces = kRowBytes / 16;
  static_assert(kPieces == 2 || kPieces == 4 || kPieces == 8);
  return 16 * (piece ^ (row / (8 / kPieces) % kPieces));
}

/// Starts the copy of a tile's rows: source(row) points to their first byte. Rows that are not
/// live(row), and bytes from `row_bytes` on, become zeros.
template <int kThreads, int kRows, int kRowBytes, class Source, class Live>
__device__ __forceinline__ void copy_tile(std::byte (&to)[kRows][kRowBytes], std::int64_t row_bytes,
                                          const Source& source, const Live& live) {
  constexpr int kPieces = kRowBytes / 16;
  constexpr int kRowsAtOnce = kThreads / kPieces;
  static_assert(kThreads % kPieces == 0 && kRows % kRowsAtOnce == 0);
  const int thread = static_cast<int>(threadIdx.x);
  const int piece = thread % kPieces;
  CAIRN_UNROLL
  for (int i = 0; i < kRows; i += kRowsAtOnce) {
    const int row = i + thread / kPieces;
    copy_async<16>(&to[row][swizzled<kRowBytes>(row, piece)], source(row) + 16 * piece,
                   live(row) && 16 * piece < row_bytes);
  }
}

/// Which of a tile's columns, in the order of y, row p of the weight's tile holds. A lane's sums of
/// two neighbouring 8-column products are then four neighbouring columns: one wide store.
__device__ __forceinline__ int column_of_row(int p) {
  return p / 16 * 16 + p % 8 / 2 * 4 + p / 8 % 2 * 2 + p % 2;
}

/// The b operands of a warp: 32 columns by 16 values of k.
struct GemmColumns {
  std::uint32_t b[4][2];
};

template <class Weight, class Tile>
struct GemmStage;

template <class Tile>
struct GemmStage<Bf16Weight, Tile> {
  static constexpr int kRowBytes = 2 * Tile::kDepth;
  std::byte w[Tile::kColumns][kRowBytes];

  /// Columns are column(c) for c in 0 .. kColumns - 1, where live(c).
  template <class Column, class Live>
  __device__ __forceinline__ void copy(const Bf16Weight& weight, std::int64_t, std::int64_t k_begin,
                                       std::int64_t k, const Column& column, const Live& live) {
    copy_tile<Tile::kThreads>(
        w, 2 * (k - k_begin),
        [&](int p) {
          const Bf16* row = weight.w + column(column_of_row(p)) * k + k_begin;
          return reinterpret_cast<const std::byte*>(row);
        },
        [&](int p) { return live(column_of_row(p)); });
  }

  /// Step `step` of 16 for the warp whose columns begin at `begin`.
  __device__ __forceinline__ GemmColumns load(int begin, int step) const {
    GemmColumns columns;
    const int lane = static_cast<int>(threadIdx.x % 32);
    CAIRN_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
      const int row = begin + 16 * pair + lane / 16 * 8 + lane % 8;
      std::uint32_t four[4];
      load_matrices<4>(&w[row][swizzled<kRowBytes>(row, 2 * step + lane / 8 % 2)], four);
      CAIRN_UNROLL
      for (int i = 0; i < 4; ++i) columns.b[2 * pair + i / 2][i % 2] = four[i];
    }
    return columns;
  }
};

/// Signed byte `i` of a word; exact, by the bits of 2^23 + (value + 128).
__device__ __forceinline__ float signed_byte(std::uint32_t word, int i) {
  const std::uint32_t shifted = (word ^ 0x80808080U) >> (8 * i) & 0xffU;
  return bits_float(0x4b000000U | shifted) - 8388736.0F;
}

template <class Tile>
struct GemmStage<Int8Weight, Tile> {
  static constexpr int kRowBytes = Tile::kDepth;
  static constexpr int kScaleDepth = 32;  // every group is a multiple of it
  std::byte q[Tile::kColumns][kRowBytes];
  alignas(16) Bf16 scale[Tile::kDepth / kScaleDepth][Tile::kColumns];  // in the order of y

  template <class Column, class Live>
  __device__ __forceinline__ void copy(const Int8Weight& weight, std::int64_t n,
                                       std::int64_t k_begin, std::int64_t k, const Column& column,
                                       const Live& live) {
    copy_tile<Tile::kThreads>(
        q, k - k_begin,
        [&](int p) {
          const std::int8_t* row = weight.q + column(column_of_row(p)) * k + k_begin;
          return reinterpret_cast<const std::byte*>(row);
        },
        [&](int p) { return live(column_of_row(p)); });
    constexpr int kPieces = Tile::kColumns / 8;
    const int half = static_cast<int>(threadIdx.x) / kPieces;
    if (half >= Tile::kDepth / kScaleDepth) return;
    const int c = static_cast<int>(threadIdx.x) % kPieces * 8;
    const std::int64_t first = k_begin + half * kScaleDepth;
    copy_async<16>(&scale[half][c], weight.scales + first / weight.group * n + column(c),
                   live(c) && first < k);
  }

  __device__ __forceinline__ GemmColumns load(int begin, int step) const {
    GemmColumns columns;
    const int lane = static_cast<int>(threadIdx.x % 32);
    std::uint32_t four[4];
    load_matrices<4>(&q[begin + lane][swizzled<kRowBytes>(begin + lane, step)], four);
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int column = column_of_row(begin + 8 * j + lane / 4);
      const float s = to_float(load_shared(&scale[step * 16 / kScaleDepth][column]));
      CAIRN_UNROLL
      for (int half = 0; half < 2; ++half) {
        columns.b[j][half] =
            pack_bf16(signed_byte(four[j], 2 * half) * s, signed_byte(four[j], 2 * half + 1) * s);
      }
    }
    return columns;
  }
};

/// mma_bf16_16x8x16 without tensor cores: one fma a product, k ascending.
__device__ __forceinline__ void fma_bf16_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                                                 const std::uint32_t (&b)[2]) {
  const int row = static_cast<int>(threadIdx.x % 32) / 4 * 4;     // the lanes of row g
  const int column = static_cast<int>(threadIdx.x % 32) % 4 * 8;  // and of column 2t
  CAIRN_UNROLL
  for (int half = 0; half < 2; ++half) {
#if defined(__CUDACC__)
#pragma unroll 1  // unrolled, ptxas takes minutes for each kernel
#endif
    for (int from = 0; from < 4; ++from) {
      const std::uint32_t upper = __shfl_sync(kFullMask, a[2 * half], row + from);
      const std::uint32_t lower = __shfl_sync(kFullMask, a[2 * half + 1], row + from);
      const std::uint32_t left = __shfl_sync(kFullMask, b[half], column + from);
      const std::uint32_t right = __shfl_sync(kFullMask, b[half], column + 4 + from);
      CAIRN_UNROLL
      for (int i = 0; i < 2; ++i) {
        const auto value = [i](std::uint32_t word) {
          return bits_float(i == 0 ? word << 16 : word & 0xffff0000U);
        };
        d[0] = fma_rn(value(upper), value(left), d[0]);
        d[1] = fma_rn(value(upper), value(right), d[1]);
        d[2] = fma_rn(value(lower), value(left), d[2]);
        d[3] = fma_rn(value(lower), value(right), d[3]);
      }
    }
  }
}

/// The product of every tile: one shape of instruction, so one order inside it.
__device__ __forceinline__ void multiply_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[2]) {
#if defined(__CUDACC__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800)
  fma_bf16_16x8x16(d, a, b);
#else
  mma_bf16_16x8x16(d, a, b);
#endif
}

}  // namespace cairn::kernels::cuda
