// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kv.hpp"

#include <cstring>

namespace cairn::kernels {

void copy_kv_slots(const KvLayout& layout, const std::byte* from, std::byte* to,
                   std::int32_t tokens) {
  // Of the keys, `cell` bytes of every slot stand together: a pair of bf16 dims or one fp32 dim.
  constexpr std::size_t cell = 4;
  const auto live = static_cast<std::size_t>(tokens);
  const std::size_t head = layout.head_bytes();
  const auto heads = static_cast<std::size_t>(layout.kv_heads);
  const std::size_t row = cell * kKvBlockTokens;
  for (std::size_t at = 0; at < heads * head; at += row) {
    std::memcpy(to + at, from + at, cell * live);
  }
  const std::size_t values = static_cast<std::size_t>(layout.head_dim) * layout.element_bytes();
  for (std::size_t h = heads; h < 2 * heads; ++h) {
    std::memcpy(to + h * head, from + h * head, values * live);
  }
}

}  // namespace cairn::kernels
