// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kv.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/dtype.hpp"

namespace cairn::kernels {
namespace {

// Of one head. The last slot of an odd number shares its words with one that stays.
void copy_half_values(const KvLayout& layout, const std::byte* from, std::byte* to,
                      std::int32_t tokens) {
  for (std::int32_t d = 0; d < layout.head_dim; d += 16) {
    const auto end = std::min(d + 16, layout.head_dim);
    const auto at = [&](std::int32_t slot, std::int32_t dim) {
      return static_cast<std::size_t>(layout.half_value(slot, dim)) * sizeof(Bf16);
    };
    const std::size_t begin = at(0, d);
    std::memcpy(to + begin, from + begin, at(tokens / 2 * 2, d) - begin);
    for (std::int32_t i = d; tokens % 2 != 0 && i < end; ++i) {
      std::memcpy(to + at(tokens - 1, i), from + at(tokens - 1, i), sizeof(Bf16));
    }
  }
}

}  // namespace

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
  for (std::size_t h = heads; h < 2 * heads; ++h) {
    if (layout.type == KvType::f32) {
      const std::size_t values = static_cast<std::size_t>(layout.head_dim) * sizeof(float);
      std::memcpy(to + h * head, from + h * head, values * live);
    } else {
      copy_half_values(layout, from + h * head, to + h * head, tokens);
    }
  }
}

}  // namespace cairn::kernels
