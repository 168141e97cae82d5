// SPDX-License-Identifier: Apache-2.0
// Integer weights and activations: their groups, their scales and how values are rounded.
//
// A product with integer weights is, for one output and one row,
//   y = 0;  for each group of k, ascending:  y = fma(float(sum), scale_a * scale_w, y)
// where sum adds q_a * q_w over the group, exact in 32 bits and in fp32 (below 2^21). Integer sums
// have no order, so every instruction set gives the same bits. In memory a weight is unsigned,
// q_w + z; a sum starts at -z times the sum of q_a (a row's correction) and so ends the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/packed.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels {

/// Of the integer panels: raised whenever their layout or the rounding to them changes, because
/// files of packed weights store it. States on disk were computed with such weights: where the
/// rounding changes, kNumericsVersion (engine/cache/fingerprint.hpp) is raised with it.
inline constexpr std::uint32_t kQuantisedLayout = 3;

/// Values of k that share a scale. `format` is an integer one, here and below.
constexpr std::int64_t quant_group(WeightFormat format) {
  return format == WeightFormat::int8 ? 128 : 64;
}
inline constexpr std::int64_t kMaxQuantGroup = 128;

/// What an unsigned weight of 0 reads in memory.
constexpr std::int32_t quant_zero(WeightFormat format) {
  return format == WeightFormat::int8 ? 128 : 8;
}

/// Groups of a row of k values, the last one padded with zeros.
constexpr std::int64_t quant_groups(std::int64_t k, WeightFormat format) {
  return (k + quant_group(format) - 1) / quant_group(format);
}

/// Bytes of a group's scales, which stand before its weights.
inline constexpr std::size_t kGroupScaleBytes = kPanelColumns * sizeof(Bf16);

/// Bytes of a group of one panel: 64 scales and the weights of 64 columns.
constexpr std::size_t group_bytes(WeightFormat format) {
  const std::int64_t halves = format == WeightFormat::int8 ? 2 : 1;
  return kGroupScaleBytes +
         static_cast<std::size_t>(kPanelColumns * quant_group(format) * halves / 2);
}

/// Chooses scale and integers of one group. int8: integers in [-127, 127]. int4: in [-8, 7], the
/// scale of least squared error among nine, which may be negative. A group whose scale would vanish
/// becomes zeros with scale 0. Throws InvariantError when a value is not finite.
Bf16 quantise_weights(WeightFormat format,
                      const float* values,  // [quant_group(format)] fp32
                      std::int8_t* q);      // [quant_group(format)]

/// Writes and reads one column (0..63) of a group of a panel, in PackedMatrix's layout.
void store_group_column(WeightFormat format, std::byte* group, std::int64_t column, Bf16 scale,
                        const std::int8_t* q);  // [quant_group(format)]
float load_group_column(WeightFormat format, const std::byte* group, std::int64_t column,
                        std::int8_t* q);  // [quant_group(format)]; returns the scale

/// Scale and reciprocal of a group of activations whose largest magnitude is `largest`; NaN and
/// infinity included. The reciprocal is 0 where the group's integers are all zero.
struct QuantScale {
  float scale = 0.0F;
  float inverse = 0.0F;
};
inline QuantScale quant_scale(float largest) {
  if (!(largest <= 0x1.fffffep127F)) return {bits_float(0x7fc00000U), 0.0F};
  if (largest < 0x1p-100F) return {0.0F, 0.0F};
  return {largest / 127.0F, 127.0F / largest};
}

/// To the nearest whole number, ties to even, for |x| < 2^22: adding 1.5 * 2^23 rounds in the last
/// place.
inline std::int32_t quant_round(float x) {
  return static_cast<std::int32_t>(float_bits(x + 0x1.8p23F) - float_bits(0x1.8p23F));
}

/// Quantised activations: views into memory of the caller, which must outlive them. Written by
/// Ops::quantise_rows, read by Ops::gemm_quantised. Copyable.
///
/// Per row and group: scale = max |x| / 127 and q = x * (127 / max |x|), rounded to nearest, ties
/// to even. A group whose largest value is below 2^-100 has scale 0 and zeros. A group that holds
/// an infinity or a NaN has zeros and a scale that is NaN: all outputs of that row become NaN,
/// those of other rows do not change.
struct QuantRows {
  WeightFormat format = WeightFormat::int8;  // of the weights to be multiplied with
  std::int64_t rows = 0;
  std::int64_t k = 0;                   // values of a row
  std::int64_t groups = 0;              // of a row
  std::int64_t ld = 0;                  // bytes from row to row, a multiple of 64
  std::int8_t* values = nullptr;        // [rows, ld]; zeros from k to the end of the last group
  float* scales = nullptr;              // [rows, groups] fp32
  std::int32_t* corrections = nullptr;  // [rows, groups]: -quant_zero(format) * sum of q

  /// Bytes of memory that `over` needs for up to `rows` rows.
  static std::size_t bytes(std::int64_t rows, std::int64_t k, WeightFormat format);
  /// Lays the views out. `memory` is aligned to 64 bytes. Throws InvariantError when it is too
  /// small.
  static QuantRows over(std::span<std::byte> memory, std::int64_t rows, std::int64_t k,
                        WeightFormat format);
};

}  // namespace cairn::kernels
