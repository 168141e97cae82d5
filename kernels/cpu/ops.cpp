// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/ops.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/math_body.hpp"
#include "kernels/cpu/quantised.hpp"
#include "kernels/cpu/shared.hpp"

namespace cairn::kernels {
namespace {

/// One lane with the interface that math_body.hpp needs, so that scalars get the vector kernels'
/// bits.
struct VecScalar {
  using Int = std::int32_t;
  float v;

  static VecScalar set1(float x) { return {x}; }
  static VecScalar zero() { return {0.0F}; }
  static VecScalar add(VecScalar a, VecScalar b) { return {a.v + b.v}; }
  static VecScalar sub(VecScalar a, VecScalar b) { return {a.v - b.v}; }
  static VecScalar mul(VecScalar a, VecScalar b) { return {a.v * b.v}; }
  static VecScalar div(VecScalar a, VecScalar b) { return {a.v / b.v}; }
  static VecScalar min(VecScalar a, VecScalar b) { return {a.v < b.v ? a.v : b.v}; }
  static VecScalar max(VecScalar a, VecScalar b) { return {a.v > b.v ? a.v : b.v}; }
  static VecScalar fma(VecScalar a, VecScalar b, VecScalar c) {
    return {__builtin_fmaf(a.v, b.v, c.v)};
  }
  static VecScalar minus_abs(VecScalar a) { return {bits_float(float_bits(a.v) | 0x80000000U)}; }
  static VecScalar negate(VecScalar a) { return {bits_float(float_bits(a.v) ^ 0x80000000U)}; }
  static bool less(VecScalar a, VecScalar b) { return a.v < b.v; }
  static bool equal(VecScalar a, VecScalar b) { return a.v == b.v; }
  static VecScalar select(bool m, VecScalar yes, VecScalar no) { return m ? yes : no; }
  static Int as_int(VecScalar a) { return static_cast<Int>(float_bits(a.v)); }
  static VecScalar as_float(Int a) { return {bits_float(static_cast<std::uint32_t>(a))}; }
  static VecScalar to_float_lanes(Int a) { return {static_cast<float>(a)}; }
  static Int iset1(Int x) { return x; }
  static Int iadd(Int a, Int b) {
    return static_cast<Int>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
  static Int isub(Int a, Int b) {
    return static_cast<Int>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
  }
  static Int iand(Int a, Int b) { return a & b; }
  template <int kBits>
  static Int shift_left(Int a) {
    return static_cast<Int>(static_cast<std::uint32_t>(a) << kBits);
  }
  template <int kBits>
  static Int shift_right(Int a) {
    return a >> kBits;
  }
};

/// The table of AVX-512 with what else this processor has.
const Ops& avx512_here() {
  static const Ops table = [] {
    Ops t = shared::kAvx512;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni")) t.gemm_quantised = shared::gemm_quantised_vnni;
    if (bf16_dot_preferred()) {
      t.attention = shared::attention_dot;
      t.attention_range = shared::attention_range_dot;
      t.round_rows = shared::round_rows_bf16;
      t.gemm_rounded = shared::gemm_rounded_bf16;
    }
    return t;
  }();
  return table;
}

}  // namespace

const Ops& ops(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return avx512_here();
    case Isa::avx2:
      return shared::kAvx2;
    default:
      return shared::kPortable;
  }
}

float exp_f32(float x) { return exp_lanes(VecScalar{x}).v; }
float log_f32(float x) { return log_lanes(VecScalar{x}).v; }
float sigmoid_f32(float x) { return sigmoid_lanes(VecScalar{x}).v; }
float sum_f32(const float* x, std::int64_t n) { return shared::kPortable.sum(x, n); }
std::int64_t argmax_f32(const float* x, std::int64_t n) { return shared::kPortable.argmax(x, n); }

namespace shared {

void embed_packed(const PackedMatrix& w, std::int64_t row, float* y) {
  if (w.format() != WeightFormat::bf16) return embed_quantised(w, row, y);
  const Bf16* panel = w.panel(row / kPanelColumns);
  for (std::int64_t i = 0; i < w.k(); ++i) {
    y[i] = to_float(panel[PackedMatrix::place(i, row % kPanelColumns)]);
  }
}

void embed_quantised(const PackedMatrix& w, std::int64_t row, float* y) {
  const std::byte* panel = w.panel_data(row / kPanelColumns);
  const std::int64_t group = quant_group(w.format());
  std::int8_t q[kMaxQuantGroup];
  for (std::int64_t k = 0; k < w.k(); k += group, panel += group_bytes(w.format())) {
    const float scale = load_group_column(w.format(), panel, row % kPanelColumns, q);
    const std::int64_t count = std::min(group, w.k() - k);
    for (std::int64_t i = 0; i < count; ++i) y[k + i] = static_cast<float>(q[i]) * scale;
  }
}

void quantise_rows(const float* x, std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                   const QuantRows& to) {
  const std::int64_t group = quant_group(to.format);
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    for (std::int64_t g = 0; g < to.groups; ++g) {
      const float* from = x + r * ldx + g * group;
      std::int8_t* q = to.values + r * to.ld + g * group;
      const std::int64_t count = std::min(group, to.k - g * group);
      std::uint32_t largest = 0;  // as bits, which sort as magnitudes do and put NaN on top
      for (std::int64_t i = 0; i < count; ++i) {
        largest = std::max(largest, float_bits(from[i]) & 0x7fffffffU);
      }
      const QuantScale scale = quant_scale(bits_float(largest));
      std::int32_t sum = 0;
      for (std::int64_t i = 0; i < group; ++i) {
        q[i] = i < count && scale.inverse != 0.0F
                   ? static_cast<std::int8_t>(quant_round(from[i] * scale.inverse))
                   : std::int8_t{0};
        sum += q[i];
      }
      to.scales[r * to.groups + g] = scale.scale;
      to.corrections[r * to.groups + g] = -quant_zero(to.format) * sum;
    }
  }
}

void kv_store(const KvLayout& layout, std::byte* layer, std::int32_t slot, const float* k,
              const float* v) {
  const std::int64_t dim = layout.head_dim;
  for (std::int32_t h = 0; h < layout.kv_heads; ++h, k += dim, v += dim) {
    std::byte* keys = layer + layout.key_offset(h);
    std::byte* values = layer + layout.value_offset(h);
    if (layout.type == KvType::bf16) {
      auto* to_k = reinterpret_cast<Bf16*>(keys) + 2 * slot;
      auto* to_v = reinterpret_cast<Bf16*>(values);
      for (std::int64_t d = 0; d < dim; d += 2) {
        const Bf16 pair[2] = {to_bf16(k[d]), to_bf16(k[d + 1])};
        std::memcpy(to_k + d * kKvBlockTokens, pair, sizeof pair);
      }
      for (std::int64_t d = 0; d < dim; ++d) to_v[layout.half_value(slot, d)] = to_bf16(v[d]);
    } else {
      auto* to_k = reinterpret_cast<float*>(keys) + slot;
      auto* to_v = reinterpret_cast<float*>(values) + slot * dim;
      for (std::int64_t d = 0; d < dim; ++d) to_k[d * kKvBlockTokens] = k[d];
      std::memcpy(to_v, v, static_cast<std::size_t>(dim) * sizeof(float));
    }
  }
}

}  // namespace shared
}  // namespace cairn::kernels
