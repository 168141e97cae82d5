// SPDX-License-Identifier: Apache-2.0
// What products take activations as.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::kernels {

/// Of products of bf16 weights, and of attention over a bf16 KV cache (its queries and its softmax
/// weights).
enum class Activations : std::uint8_t {
  bf16,  // rounded to nearest even before each product, denormals zero
  fp32,  // as they are
};

/// "bf16", "fp32".
const char* to_string(Activations activations);

/// What these names mean; nothing for other spellings.
std::optional<Activations> activations_named(std::string_view name);

}  // namespace cairn::kernels
