// SPDX-License-Identifier: Apache-2.0
// The tensor-core instructions. Fragment layouts are those of PTX ISA 9.0, "Matrix fragments for
// mma.m16n8k16 / m16n8k8" and "ldmatrix": with g = lane / 4 and t = lane % 4,
//   a[0] row g, a[1] row g + 8, columns 2t and 2t + 1; a[2], a[3] the same rows, columns + 8
//   b[0] rows 2t and 2t + 1, b[1] the same + 8, column g
//   d[0], d[1] row g, columns 2t and 2t + 1; d[2], d[3] row g + 8
// The lower half of a word is the lower index. All 32 lanes call each function together.
//
// The order in which hardware adds the products of one instruction is not documented, so the host
// bodies (exact sum, one rounding) agree with it to the last places only. Compare with a tolerance;
// bits are equal between calls that give the same operands, on each of the two.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// d += a b, [16, 8] fp32 += [16, 16] bf16 times [16, 8] bf16. sm_80 and later: traps on sm_75.
__device__ __forceinline__ void mma_bf16_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                                                 const std::uint32_t (&b)[2]) {
#if !defined(__CUDACC__)
  simt::multiply_fragments(true, 16, d, a, b);
#elif __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

/// d += a b, [16, 8] fp32 += [16, 8] fp16 times [8, 8] fp16: a[0], a[1] and b of the layout above.
__device__ __forceinline__ void mma_f16_16x8x8(float (&d)[4], const std::uint32_t (&a)[2],
                                               std::uint32_t b) {
#if !defined(__CUDACC__)
  simt::multiply_fragments(false, 8, d, a, &b);
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

/// As mma_bf16_16x8x16 with fp16 operands. On sm_75 two steps of depth 8, lower half first.
__device__ __forceinline__ void mma_f16_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                                                const std::uint32_t (&b)[2]) {
#if !defined(__CUDACC__)
  simt::multiply_fragments(false, 16, d, a, b);
#elif __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  mma_f16_16x8x8(d, {a[0], a[1]}, b[0]);
  mma_f16_16x8x8(d, {a[2], a[3]}, b[1]);
#endif
}

/// Two values as bf16, `low` in the lower half, rounded to nearest even. A NaN is some quiet NaN.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return static_cast<std::uint32_t>(to_bf16(high).bits) << 16 | to_bf16(low).bits;
#endif
}

/// Loads kCount (1, 2 or 4) 8 x 8 matrices of 16-bit values from shared memory. Lanes 8i .. 8i + 7
/// point to the 16-byte rows of matrix i. fragment[i]: row lane / 4, columns 2 (lane % 4) and + 1
/// of matrix i, or of its transpose.
template <int kCount, bool kTranspose = false>
__device__ __forceinline__ void load_matrices(const void* row, std::uint32_t (&fragment)[kCount]) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
#if !defined(__CUDACC__)
  std::uint32_t words[4] = {};
  if (simt::lane() < 8U * kCount) {
    simt::touch(simt::Access::shared_load, row, 16, __LINE__);
    std::memcpy(words, row, sizeof words);
  }
  simt::distribute_matrices(kTranspose, kCount, words, fragment);
#else
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kCount == 1 && !kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(fragment[0])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kCount == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(fragment[0])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kCount == 2 && !kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(fragment[0]), "=r"(fragment[1])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(fragment[0]), "=r"(fragment[1])
                 : "r"(from)
                 : "memory");
  } else if constexpr (!kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(from)
                 : "memory");
  }
#endif
}

}  // namespace cairn::kernels::cuda
