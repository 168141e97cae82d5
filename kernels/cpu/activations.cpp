// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/activations.hpp"

namespace cairn::kernels {

const char* to_string(Activations activations) {
  return activations == Activations::fp32 ? "fp32" : "bf16";
}

std::optional<Activations> activations_named(std::string_view name) {
  for (const Activations a : {Activations::bf16, Activations::fp32}) {
    if (name == to_string(a)) return a;
  }
  return std::nullopt;
}

}  // namespace cairn::kernels
