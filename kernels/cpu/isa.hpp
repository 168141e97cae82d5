// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels use. Every level gives the same bits; they differ in speed
// only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cairn::kernels {

enum class Isa : std::uint8_t {
  portable,  // plain C++, any x86-64
  avx2,      // AVX2 and FMA
  avx512,    // AVX-512 F, BW, DQ and VL
};

/// "portable", "avx2", "avx512".
const char* to_string(Isa isa);

/// Error bad_request with the list of names when `name` is none of them.
Result<Isa> parse_isa(std::string_view name);

/// True when this processor and operating system can run `isa`.
bool isa_supported(Isa isa);

/// True when this processor has VDPBF16PS, which multiplies bf16 in pairs, beside AVX-512.
bool bf16_dot_supported();

/// True when it has and multiplies at least about as fast with it as with fp32 instructions on
/// widened values, which some processors do not. The bits are the same. Measured by the first call,
/// in some 0.2 ms. Thread-safe.
bool bf16_dot_preferred();

/// The best level supported here.
Isa detect_isa();

/// Every level supported here, ascending.
std::vector<Isa> supported_isas();

/// What `name` asks for: empty takes the environment variable CAIRN_ISA, and without it the best
/// level. Error bad_request for an unknown name, unsupported for a level that this machine lacks.
Result<Isa> choose_isa(std::string_view name);

}  // namespace cairn::kernels
