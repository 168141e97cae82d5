// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/pointwise.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {
namespace {

Grid pointwise_grid(std::int64_t rows, std::int64_t n) {
  return {rows, static_cast<std::int32_t>(ceil_div(n, 4 * kPointwiseThreads))};
}

}  // namespace

template <class Out>
Grid sigmoid_gate_grid(const SigmoidGateArgs<Out>& args) {
  return pointwise_grid(args.tokens, static_cast<std::int64_t>(args.heads) * args.head_dim);
}

template <class Out>
void sigmoid_gate(Stream stream, const SigmoidGateArgs<Out>& args) {
  check(args.head_dim % 4 == 0 && args.gate_head_stride % 4 == 0 && args.ld_gate % 4 == 0,
        "sigmoid_gate: head_dim and strides are multiples of 4");
  launch<SigmoidGate<Out>>(sigmoid_gate_grid(args), stream, args);
}

template <class Out>
Grid swiglu_grid(const SwigluArgs<Out>& args) {
  return pointwise_grid(args.rows, args.n);
}

template <class Out>
void swiglu(Stream stream, const SwigluArgs<Out>& args) {
  check(args.n % 4 == 0 && args.ld_gate % 4 == 0 && args.ld_up % 4 == 0,
        "swiglu: n and strides are multiples of 4");
  launch<Swiglu<Out>>(swiglu_grid(args), stream, args);
}

template Grid sigmoid_gate_grid(const SigmoidGateArgs<float>&);
template Grid sigmoid_gate_grid(const SigmoidGateArgs<Bf16>&);
template void sigmoid_gate(Stream, const SigmoidGateArgs<float>&);
template void sigmoid_gate(Stream, const SigmoidGateArgs<Bf16>&);
template Grid swiglu_grid(const SwigluArgs<float>&);
template Grid swiglu_grid(const SwigluArgs<Bf16>&);
template void swiglu(Stream, const SwigluArgs<float>&);
template void swiglu(Stream, const SwigluArgs<Bf16>&);

}  // namespace cairn::kernels::cuda
