// SPDX-License-Identifier: Apache-2.0
// Loops over registers must be unrolled completely, at every optimisation level, or the registers
// become memory.
#pragma once

#if defined(__clang__)
#define CAIRN_UNROLL _Pragma("unroll")
#else
#define CAIRN_UNROLL _Pragma("GCC unroll 16")
#endif
