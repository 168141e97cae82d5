// SPDX-License-Identifier: Apache-2.0
// What the lanes need from the compiler at every optimisation level: loops over registers unrolled
// completely and small functions inlined, or the registers become memory. Sanitizers multiply the
// code of each access and make registers memory anyway: there loops stay loops and calls stay
// calls. nvcc compiles the arithmetic of math_body.hpp for the device too.
#pragma once

#if defined(__CUDACC__)
#define CAIRN_INLINE __host__ __device__ __forceinline__
#define CAIRN_UNROLL _Pragma("unroll")
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAIRN_UNROLL
#define CAIRN_INLINE inline
#else
#define CAIRN_INLINE [[gnu::always_inline]] inline
#if defined(__clang__)
#define CAIRN_UNROLL _Pragma("unroll")
#else
#define CAIRN_UNROLL _Pragma("GCC unroll 16")
#endif
#endif
