// SPDX-License-Identifier: Apache-2.0
// The numeric kernels of the CPU backend: one table of functions per instruction set, the same bits
// from each.
//
// Nothing here allocates, locks or starts threads. "Split over" names what the caller may divide
// among threads; no split, batch or chunking changes a bit of any output. docs/order.md gives each
// reduction's order. All strides (ld*) count elements. Outputs may not overlap inputs unless a
// kernel says "in place".
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/activations.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/kv.hpp"
#include "kernels/cpu/packed.hpp"
#include "kernels/cpu/quantised.hpp"
#include "kernels/cpu/rounded.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels {

/// Causal depthwise convolution over time, then SiLU, on channels [channel_begin, channel_end).
/// Split over channels (ranges of a multiple of 16 are fastest), never over tokens.
struct ConvArgs {
  std::int64_t channels = 0;  // row length of window and weight
  std::int64_t channel_begin = 0;
  std::int64_t channel_end = 0;
  std::int32_t taps = 4;  // 1 <= taps <= 8
  std::int64_t tokens = 0;
  const float* weight = nullptr;  // [taps, channels] fp32; tap taps - 1 multiplies the newest token
  float* window = nullptr;        // [taps - 1, channels] fp32, oldest first; advanced by `tokens`
  const float* x = nullptr;       // [tokens, ldx] fp32
  std::int64_t ldx = 0;
  float* y = nullptr;  // [tokens, ldy] fp32; may be x (in place)
  std::int64_t ldy = 0;
};

/// Value columns that a head can be split at multiples of; each group has a pending factor.
inline constexpr std::int32_t kDeltaColumns = 32;
constexpr std::int32_t delta_groups(std::int32_t columns) {
  return (columns + kDeltaColumns - 1) / kDeltaColumns;
}

/// The gated delta rule for one value head over consecutive tokens. Per token, in this order:
///   S <- decay S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q
/// S is `pending` times what `state` holds, so that a decay costs no pass over it. Split over
/// heads, and inside a head over value columns [column_begin, column_end), multiples of
/// kDeltaColumns.
struct DeltaArgs {
  std::int32_t dk = 0;
  std::int32_t dv = 0;
  std::int32_t column_begin = 0;
  std::int32_t column_end = 0;  // dv for all
  std::int64_t tokens = 0;
  float* state = nullptr;    // [dk, dv] fp32, in place
  float* pending = nullptr;  // [delta_groups(dv)] fp32, in place, all equal; 0 stands for 1
  const float* q = nullptr;  // [tokens, ldq]; dk values of this head, normalised and scaled
  std::int64_t ldq = 0;
  const float* k = nullptr;  // [tokens, ldk]; dk values, normalised
  std::int64_t ldk = 0;
  const float* v = nullptr;  // [tokens, ldv]; dv values
  std::int64_t ldv = 0;
  const float* decay = nullptr;  // [tokens] with stride ldg
  const float* beta = nullptr;   // [tokens] with stride ldg
  std::int64_t ldg = 0;          // value heads, when the gates are [tokens, heads]
  float* o = nullptr;            // [tokens, ldo]; dv values of this head
  std::int64_t ldo = 0;
};

/// Causal attention of consecutive query rows of one sequence over one kv head, for the `group`
/// query heads that share it. Row i stands at position + i and sees keys 0 .. position + i. The
/// rows' own K and V must be stored before. Split over kv heads and over rows (16 rows or so per
/// call reuse each tile of keys from the cache).
struct AttentionArgs {
  KvLayout layout;
  std::int32_t kv_head = 0;
  std::int32_t group = 1;  // query heads per kv head
  std::int32_t rows = 0;
  std::int64_t position = 0;                    // of row 0
  const std::byte* const* blocks = nullptr;     // block b holds positions [16 b, 16 b + 16)
  std::size_t layer_offset = 0;                 // bytes from a block's start to this layer's share
  float scale = 0.0F;                           // multiplies the score, head_dim^-0.5
  Activations activations = Activations::bf16;  // over a bf16 cache; fp32 keys take fp32 factors
  const float* q = nullptr;  // [rows, ldq]; group * head_dim values, heads of the group adjacent
  std::int64_t ldq = 0;
  float* o = nullptr;  // [rows, ldo]; group * head_dim values
  std::int64_t ldo = 0;
  float* scratch = nullptr;  // [attention_scratch(...)] fp32, 64-byte aligned, per thread
};

/// Query heads that a kernel multiplies with a tile of keys at once, at most.
inline constexpr std::int64_t kAttentionBlock = 6;

/// fp32 elements of one rounded query head in AttentionArgs::scratch.
constexpr std::int64_t attention_query_size(std::int64_t head_dim) {
  return (head_dim + 31) / 32 * 32;
}

/// fp32 elements of AttentionArgs::scratch.
constexpr std::int64_t attention_scratch(std::int64_t rows, std::int64_t group,
                                         std::int64_t head_dim) {
  const std::int64_t padded = (head_dim + 15) / 16 * 16;
  return rows * group * (2 * (padded + 16) + attention_query_size(head_dim)) +
         kAttentionBlock * kAttentionTile;
}

/// fp32 elements of one range's partial result for one query head.
constexpr std::int64_t attention_partial_size(std::int64_t head_dim) {
  return (head_dim + 15) / 16 * 16 + 16;
}

/// Which of a row's logits have which weights; draws() of kernels/sampling.hpp holds.
struct WeightArgs {
  float max = 0.0F;  // the row's largest logit
  float inverse_temperature = 1.0F;
  float from = 0.0F;
  float min_p = 0.0F;
};

struct Ops {
  Isa isa = Isa::portable;

  /// bf16 weights: y[r, c] = sum over k of x[r, k] w[c, k], pairs of k ascending and the odd k of
  /// each first, one fma a step, for the columns of panels [panel_begin, panel_end). Columns past n
  /// are not written. Split over panels (any range), and over rows where these are many: each call
  /// reads its panels from memory once for all its rows. For many rows ldx * 4 bytes should not be
  /// a multiple of 4096 (rows then share cache sets): pad by 16.
  void (*gemm)(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
               const float* x,  // [rows, ldx] fp32, k values each
               std::int64_t ldx, std::int64_t rows,
               float* y,  // [rows, ldy] fp32, n values each
               std::int64_t ldy);

  /// Rows [row_begin, row_end) of x as RoundedRows describes it: the k values of each, into the
  /// same rows of `to`. Split over rows. Runs before gemm_rounded, once for all its panels.
  void (*round_rows)(const float* x,  // [rows, ldx] fp32; row 0 is row 0 of `to`
                     std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                     const RoundedRows& to);

  /// gemm on rows [row_begin, row_begin + rows) of rounded ones, with denormals taken for zero and
  /// made zero. Split as gemm.
  void (*gemm_rounded)(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                       const RoundedRows& x, std::int64_t row_begin, std::int64_t rows,
                       float* y,  // [rows, ldy] fp32, n values each; row 0 is row_begin of x
                       std::int64_t ldy);

  /// Rows [row_begin, row_end) of x as QuantRows describes it: the k values of each, into the same
  /// rows of `to`. Split over rows. Runs before gemm_quantised, once for all its panels.
  void (*quantise_rows)(const float* x,  // [rows, ldx] fp32; row 0 is row 0 of `to`
                        std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                        const QuantRows& to);

  /// y = x w^T for integer weights, in the order of kernels/cpu/quantised.hpp, for the columns of
  /// panels [panel_begin, panel_end) and the rows [row_begin, row_begin + rows) of x. x has the
  /// format and k of w. Columns past n are not written. Split as gemm.
  void (*gemm_quantised)(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                         const QuantRows& x, std::int64_t row_begin, std::int64_t rows,
                         float* y,  // [rows, ldy] fp32, n values each; row 0 is row_begin of x
                         std::int64_t ldy);

  /// Output `row` of w, widened (an integer format: q * scale, rounded once): the embedding of a
  /// token.
  void (*embed_packed)(const PackedMatrix& w, std::int64_t row,
                       float* y);  // [k] fp32

  /// Zero-centred RMS norm: y = x / sqrt(mean(x^2) + eps) * (1 + w). Split over rows. In place
  /// allowed.
  void (*rms_norm)(const float* x,  // [rows, ldx] fp32
                   std::int64_t ldx, std::int64_t rows, std::int64_t n,
                   const float* w,  // [n] fp32
                   float eps,
                   float* y,  // [rows, ldy] fp32
                   std::int64_t ldy);

  /// x += y over n elements. Split anywhere.
  void (*residual_add)(float* x,        // [n] fp32
                       const float* y,  // [n] fp32
                       std::int64_t n);

  /// y = silu(gate) * up. Split over rows or columns. y may be gate or up.
  void (*swiglu)(const float* gate,  // [rows, ld_gate] fp32
                 std::int64_t ld_gate,
                 const float* up,  // [rows, ld_up] fp32
                 std::int64_t ld_up, std::int64_t rows, std::int64_t n,
                 float* y,  // [rows, ldy] fp32
                 std::int64_t ldy);

  void (*conv_silu)(const ConvArgs& args);

  /// decay = exp(-exp(a_log) softplus(a + dt_bias)), beta = sigmoid(b). Split over tokens.
  void (*gates)(const float* a,  // [tokens, ld] fp32
                const float* b,  // [tokens, ld] fp32
                std::int64_t ld, std::int64_t tokens, std::int32_t heads,
                const float* a_log,    // [heads] fp32
                const float* dt_bias,  // [heads] fp32
                float* decay,          // [tokens, heads] fp32
                float* beta);          // [tokens, heads] fp32

  /// In place: q /= sqrt(sum q^2 + 1e-6), k likewise, then q *= dk^-0.5; per key head. Split over
  /// tokens, heads.
  void (*l2_norm_qk)(float* q,  // [tokens, ld] fp32, heads * dk values each
                     float* k,  // [tokens, ld] fp32
                     std::int64_t ld, std::int64_t tokens, std::int32_t heads, std::int32_t dk);

  void (*delta_rule)(const DeltaArgs& args);

  /// Per value head: y = o / sqrt(mean(o^2) + eps) * w * silu(z). Split over tokens, heads. y may
  /// be o.
  void (*gated_norm)(const float* o,  // [tokens, ldo] fp32, heads * dv values each
                     std::int64_t ldo,
                     const float* z,  // [tokens, ldz] fp32
                     std::int64_t ldz, std::int64_t tokens, std::int32_t heads, std::int32_t dv,
                     const float* w,  // [dv] fp32, plain (not 1 + w)
                     float eps,
                     float* y,  // [tokens, ldy] fp32
                     std::int64_t ldy);

  /// Per head of one token: zero-centred RMS norm, then RoPE on the leading rotary_dim values,
  /// pairs (i, i + rotary_dim / 2). x may be y when the strides are equal. Split over tokens,
  /// heads.
  void (*norm_rope)(
      const float* x,  // [heads, x_head_stride] fp32; 2 * head_dim for q beside its gate
      std::int64_t x_head_stride, std::int32_t heads, std::int32_t head_dim,
      const float* w,  // [head_dim] fp32
      float eps,
      const float* cos,  // [rotary_dim / 2] fp32, this position's row
      const float* sin,  // [rotary_dim / 2] fp32
      std::int32_t rotary_dim,
      float* y,  // [heads, y_head_stride] fp32
      std::int64_t y_head_stride);

  /// Rounds one token's K and V to the cache type and stores them in `slot` (position % 16). Split
  /// over tokens (different slots of a block may be written at the same time).
  void (*kv_store)(const KvLayout& layout, std::byte* layer,  // a block's share of this layer
                   std::int32_t slot,
                   const float* k,   // [kv_heads, head_dim] fp32, after norm and RoPE
                   const float* v);  // [kv_heads, head_dim] fp32

  void (*attention)(const AttentionArgs& args);

  /// The same bits in two steps, for one row over a long context: attention_range folds the tiles
  /// of range r (positions [512 r, 512 r + 512)) into `partial`; attention_combine folds all
  /// ranges, ascending, into o. Split attention_range over ranges and kv heads. rows must be 1; o
  /// is not used by attention_range, scratch not by attention_combine.
  void (*attention_range)(const AttentionArgs& args, std::int64_t range,
                          float* partial);  // [group, attention_partial_size] fp32, 64-byte aligned
  void (*attention_combine)(const AttentionArgs& args, std::int64_t ranges,
                            float* partials);  // [ranges, group, attention_partial_size] fp32

  /// x *= sigmoid(gate), per head: the output gate of attention. Split over tokens, heads.
  void (*sigmoid_gate)(float* x,           // [heads, head_dim] fp32, one token
                       const float* gate,  // [heads, gate_head_stride] fp32
                       std::int64_t gate_head_stride, std::int32_t heads, std::int32_t head_dim);

  /// Element by element; in place allowed. Bits equal exp_f32, log_f32, sigmoid_f32.
  void (*exp)(const float* x, std::int64_t n, float* y);
  void (*log)(const float* x, std::int64_t n, float* y);
  void (*sigmoid)(const float* x, std::int64_t n, float* y);

  /// Bits equal sum_f32 and argmax_f32.
  float (*sum)(const float* x, std::int64_t n);
  std::int64_t (*argmax)(const float* x, std::int64_t n);
  /// sum of exp((x_i - shift) * scale) in the tree of sum_f32: the denominator of a softmax.
  float (*sum_exp)(const float* x, std::int64_t n, float shift, float scale);

  /// weight_of(exp_f32(weight_exponent(...)), min_p) of kernels/sampling.hpp for logits of at least
  /// `from`, 0 for others. Returns the sum, which is exact. `w` may be null.
  std::uint64_t (*weigh)(const float* x, std::int64_t n, const WeightArgs& args,
                         float* w);  // [n] whole numbers
};

/// The table of a level. The caller makes sure that the machine supports it (choose_isa).
const Ops& ops(Isa isa);

/// e^x, ln x and 1 / (1 + e^-x) to about one unit in the last place, with the bits of the vector
/// kernels. exp: 0 below -104, infinity above 88.8; log: -infinity at 0, NaN below; NaN in, NaN
/// out.
float exp_f32(float x);
float log_f32(float x);
float sigmoid_f32(float x);

/// Lane i mod 16 adds its elements in ascending order, then lanes fold by halves (8, 4, 2, 1).
float sum_f32(const float* x, std::int64_t n);
/// Index of the largest; ties go to the lowest index, NaN never wins; 0 when nothing does or n is
/// 0.
std::int64_t argmax_f32(const float* x, std::int64_t n);

}  // namespace cairn::kernels
