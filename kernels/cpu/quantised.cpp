// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/quantised.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/check.hpp"

namespace cairn::kernels {
namespace {

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes from row to row: whole groups, and 64 more so that rows do not share cache sets.
std::int64_t row_bytes(std::int64_t k, WeightFormat format) {
  return quant_groups(k, format) * quant_group(format) + 64;
}

/// Four values: packing runs on any processor and must have one order.
using Four [[gnu::vector_size(16)]] = float;

/// A group's integers, and how well they fit: what they leave of the values is least with the scale
/// vq / qq, and then is smaller the larger vq^2 / qq.
template <std::int64_t kGroup>
struct Rounded {
  Four q[kGroup / 4];
  float vq = 0.0F;  // sum of value * integer
  float qq = 0.0F;  // sum of integer^2

  Rounded(const float* values, float inverse, float low, float high) {
    Four value_sums = {}, square_sums = {};
    for (std::int64_t i = 0; i < kGroup / 4; ++i) {
      Four value;
      std::memcpy(&value, values + 4 * i, sizeof value);
      const Four scaled = value * inverse;
      const Four below = scaled < low ? Four{} + low : scaled;
      const Four kept = below > high ? Four{} + high : below;
      q[i] = (kept + 0x1.8p23F) - 0x1.8p23F;  // as quant_round
      value_sums += value * q[i];
      square_sums += q[i] * q[i];
    }
    vq = (value_sums[0] + value_sums[1]) + (value_sums[2] + value_sums[3]);
    qq = (square_sums[0] + square_sums[1]) + (square_sums[2] + square_sums[3]);
  }

  void store(std::int8_t* to) const {
    for (std::int64_t i = 0; i < kGroup; ++i) to[i] = static_cast<std::int8_t>(q[i / 4][i % 4]);
  }
};

bool usable(float scale) { return std::isfinite(1.0F / scale) && std::isfinite(scale); }

/// The largest value becomes 127 or -127.
Bf16 quantise_int8(const float* values, float extreme, std::int8_t* q) {
  const Bf16 scale = to_bf16(std::abs(extreme) / 127.0F);
  if (!usable(to_float(scale))) return Bf16{0};
  Rounded<quant_group(WeightFormat::int8)>(values, 1.0F / to_float(scale), -127.0F, 127.0F)
      .store(q);
  return scale;
}

/// The scale of least squared error among some that cut or spare the largest value, in either sign
/// because the range is one longer below zero.
Bf16 quantise_int4(const float* values, float extreme, std::int8_t* q) {
  constexpr float kEnds[] = {-9.2F, -8.6F, -8.0F, -7.4F, -6.8F, 6.4F, 7.0F, 7.7F, 8.4F};
  Bf16 best{0};
  float best_gain = 0.0F;
  for (const float end : kEnds) {
    const float scale = extreme / end;
    if (!usable(scale)) continue;
    const Rounded<quant_group(WeightFormat::int4)> r(values, 1.0F / scale, -8.0F, 7.0F);
    const float fitted = r.vq / r.qq;
    const Bf16 held = to_bf16(usable(fitted) ? fitted : scale);
    const float share = r.vq / extreme;
    const float gain = share * share / r.qq;
    if (!usable(to_float(held)) || !(gain > best_gain)) continue;
    best = held;
    best_gain = gain;
    r.store(q);
  }
  return best;
}

/// The same with sums that would leave fp32: powers of two change nothing else.
Bf16 quantise_huge_int4(const float* values, float extreme, std::int8_t* q) {
  constexpr float kDown = 0x1p-64F, kUp = 0x1p64F;
  float small[quant_group(WeightFormat::int4)];
  std::transform(values, values + std::size(small), small, [](float v) { return v * kDown; });
  return to_bf16(to_float(quantise_int4(small, extreme * kDown, q)) * kUp);
}

}  // namespace

Bf16 quantise_weights(WeightFormat format, const float* values, std::int8_t* q) {
  const std::int64_t group = quant_group(format);
  float extreme = 0.0F;
  for (std::int64_t i = 0; i < group; ++i) {
    check(std::isfinite(values[i]), "only finite weights can be quantised");
    if (std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
  }
  constexpr float kHuge = 0x1p64F;
  const auto quantise = format == WeightFormat::int8 ? quantise_int8
                        : std::abs(extreme) > kHuge  ? quantise_huge_int4
                                                     : quantise_int4;
  const Bf16 scale = quantise(values, extreme, q);
  if (to_float(scale) == 0.0F) std::fill(q, q + group, std::int8_t{0});
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
