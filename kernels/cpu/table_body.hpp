// SPDX-License-Identifier: Apache-2.0
// Builds a level's table from its lanes and its matrix tile.
#pragma once

#include "kernels/cpu/attention_body.hpp"
#include "kernels/cpu/delta_body.hpp"
#include "kernels/cpu/elementwise_body.hpp"
#include "kernels/cpu/gemm_body.hpp"
#include "kernels/cpu/sampling_body.hpp"
#include "kernels/cpu/shared.hpp"

namespace cairn::kernels {

/// Products with integer weights, which have files of their own.
struct IntegerKernels {
  decltype(Ops::quantise_rows) quantise_rows;
  decltype(Ops::gemm_quantised) gemm_quantised;
};

template <class V, class Tile>
constexpr Ops make_table(Isa isa, const IntegerKernels& integer) {
  using E = Elementwise<V>;
  using A = Attention<V>;
  Ops t;
  t.isa = isa;
  t.gemm = Gemm<Tile>::plain;
  t.round_rows = RoundRows<V>::run;
  t.gemm_rounded = Gemm<Tile>::rounded;
  t.quantise_rows = integer.quantise_rows;
  t.gemm_quantised = integer.gemm_quantised;
  t.embed_packed = shared::embed_packed;
  t.rms_norm = E::rms_norm;
  t.residual_add = E::residual_add;
  t.swiglu = E::swiglu;
  t.conv_silu = E::conv_silu;
  t.gates = E::gates;
  t.l2_norm_qk = E::l2_norm_qk;
  t.delta_rule = Delta<V>::run;
  t.gated_norm = E::gated_norm;
  t.norm_rope = E::norm_rope;
  t.kv_store = shared::kv_store;
  t.attention = A::run;
  t.attention_range = A::range;
  t.attention_combine = A::combine;
  t.sigmoid_gate = E::sigmoid_gate;
  t.exp = E::exp;
  t.log = E::log;
  t.sigmoid = E::sigmoid;
  t.sum = E::sum;
  t.argmax = E::argmax;
  t.sum_exp = E::sum_exp;
  t.weigh = Weigh<V>::run;
  return t;
}

}  // namespace cairn::kernels
