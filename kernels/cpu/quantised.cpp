// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/quantised.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"

namespace cairn::kernels {
namespace {

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes from row to row: whole groups, and 64 more so that rows do not share cache sets.
std::int64_t row_bytes(std::int64_t k, WeightFormat format) {
  return quant_groups(k, format) * quant_group(format) + 64;
}

}  // namespace

Bf16 quantise_weights(WeightFormat format, const float* values, std::int8_t* q) {
  const std::int64_t group = quant_group(format);
  float extreme = 0.0F;
  for (std::int64_t i = 0; i < group; ++i) {
    check(std::isfinite(values[i]), "only finite weights can be quantised");
    if (std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
  }
  const float low = format == WeightFormat::int8 ? -127.0F : -8.0F;
  const float high = format == WeightFormat::int8 ? 127.0F : 7.0F;
  const Bf16 scale = to_bf16(extreme / low);
  const float inverse = 1.0F / to_float(scale);
  if (!std::isfinite(inverse)) {
    std::fill(q, q + group, std::int8_t{0});
    return Bf16{0};
  }
  for (std::int64_t i = 0; i < group; ++i) {
    q[i] = static_cast<std::int8_t>(quant_round(std::clamp(values[i] * inverse, low, high)));
  }
  return scale;
}

void store_group_column(WeightFormat format, std::byte* group, std::int64_t column, Bf16 scale,
                        const std::int8_t* q) {
  std::memcpy(group + PackedMatrix::slot(column) * static_cast<std::int64_t>(sizeof(Bf16)), &scale,
              sizeof(Bf16));
  const std::int32_t zero = quant_zero(format);
  std::byte* to = group + kGroupScaleBytes + 4 * column;
  if (format == WeightFormat::int8) {
    for (std::int64_t k = 0; k < quant_group(format); ++k) {
      to[k / 4 * 4 * kPanelColumns + k % 4] = static_cast<std::byte>(q[k] + zero);
    }
    return;
  }
  for (std::int64_t k = 0; k < quant_group(format); k += 8) {
    for (std::int64_t j = 0; j < 4; ++j) {
      to[k / 8 * 4 * kPanelColumns + j] =
          static_cast<std::byte>((q[k + j] + zero) | (q[k + 4 + j] + zero) << 4);
    }
  }
}

float load_group_column(WeightFormat format, const std::byte* group, std::int64_t column,
                        std::int8_t* q) {
  Bf16 scale;
  std::memcpy(&scale, group + PackedMatrix::slot(column) * static_cast<std::int64_t>(sizeof(Bf16)),
              sizeof(Bf16));
  const std::int32_t zero = quant_zero(format);
  const std::byte* from = group + kGroupScaleBytes + 4 * column;
  for (std::int64_t k = 0; k < quant_group(format); ++k) {
    std::int32_t stored = 0;
    if (format == WeightFormat::int8) {
      stored = static_cast<std::int32_t>(from[k / 4 * 4 * kPanelColumns + k % 4]);
    } else {
      const std::byte pair = from[k / 8 * 4 * kPanelColumns + k % 4];
      stored = static_cast<std::int32_t>(k % 8 < 4 ? pair & std::byte{15} : pair >> 4);
    }
    q[k] = static_cast<std::int8_t>(stored - zero);
  }
  return to_float(scale);
}

std::size_t QuantRows::bytes(std::int64_t rows, std::int64_t k, WeightFormat format) {
  const auto scales = static_cast<std::size_t>(rows * quant_groups(k, format)) * sizeof(float);
  return static_cast<std::size_t>(rows * row_bytes(k, format)) + 2 * round_up(scales);
}

QuantRows QuantRows::over(std::span<std::byte> memory, std::int64_t rows, std::int64_t k,
                          WeightFormat format) {
  check(rows >= 0 && k >= 0 && format != WeightFormat::bf16, "activations are quantised to int8");
  check(memory.size() >= bytes(rows, k, format), "quantised rows fit their memory");
  QuantRows x;
  x.format = format;
  x.rows = rows;
  x.k = k;
  x.groups = quant_groups(k, format);
  x.ld = row_bytes(k, format);
  std::byte* at = memory.data();
  x.values = reinterpret_cast<std::int8_t*>(at);
  at += rows * x.ld;
  x.scales = reinterpret_cast<float*>(at);
  at += round_up(static_cast<std::size_t>(rows * x.groups) * sizeof(float));
  x.corrections = reinterpret_cast<std::int32_t*>(at);
  return x;
}

}  // namespace cairn::kernels
