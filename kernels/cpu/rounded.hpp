// SPDX-License-Identifier: Apache-2.0
// Activations rounded to bf16 for products with bf16 weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::kernels {

/// Rows of values rounded to bf16, to nearest, ties to even: views into memory of the caller, which
/// must outlive them. Written by Ops::round_rows, read by Ops::gemm_rounded of the same table, in
/// the type that this one multiplies: Bf16, or fp32 where values would have to be widened for each
/// panel. Copyable.
struct RoundedRows {
  std::int64_t k = 0;         // values of a row; an odd k is followed by one zero
  std::int64_t ld = 0;        // from row to row, values
  std::byte* data = nullptr;  // [rows, ld]

  /// Bytes of memory that `over` needs for up to `rows` rows, whatever the type.
  static std::size_t bytes(std::int64_t rows, std::int64_t k);
  /// Lays the rows out. `memory` is aligned to 64 bytes. Throws InvariantError when it is too
  /// small.
  static RoundedRows over(std::span<std::byte> memory, std::int64_t rows, std::int64_t k);
};

}  // namespace cairn::kernels
