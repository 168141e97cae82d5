// SPDX-License-Identifier: Apache-2.0
// Loops that nothing but the arithmetic units limits: what a kernel of the same operations is
// measured against.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.hpp"

namespace cairn::kernels {

/// Runs `rounds` rounds of fp32 multiply-adds on registers, enough of them independent to fill the
/// pipes. Returns the operations done, two a multiply-add. The machine must support `isa`; the
/// caller takes the time. Thread-safe.
double run_multiply_adds(Isa isa, std::int64_t rounds);

/// The same for exact 32-bit sums of products of 8-bit numbers, two operations a product, with what
/// dot_product_instruction names.
double run_dot_products(Isa isa, std::int64_t rounds);

/// The best instruction of `isa` on this machine that never saturates: "VPDPBUSD" (AVX-512 with
/// VNNI), "VPMADDWD" on numbers widened to 16 bits, or "scalar".
const char* dot_product_instruction(Isa isa);

/// The same for VDPBF16PS: sums of pairs of bf16 products, two operations a product. Only where
/// bf16_dot_supported (isa.hpp).
double run_bf16_dots(std::int64_t rounds);

/// Sums of products of rounded values as the kernels of `isa` make them here (Ops::gemm_rounded):
/// run_bf16_dots or run_multiply_adds, and the name, "VDPBF16PS" or "fp32 multiply-adds".
double run_rounded_products(Isa isa, std::int64_t rounds);
const char* rounded_product_instruction(Isa isa);

}  // namespace cairn::kernels
