// SPDX-License-Identifier: Apache-2.0
// Inside a KV block: 16 consecutive positions of one attention layer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::kernels {

inline constexpr std::int32_t kKvBlockTokens = 16;
/// Attention's two fixed levels, in absolute positions.
inline constexpr std::int32_t kAttentionTile = 64;
inline constexpr std::int32_t kAttentionRange = 512;

enum class KvType : std::uint8_t { bf16, f32 };

/// Shape of one layer's share of a block: keys of all heads, then values of all heads.
///   keys   f32  [kv_heads][head_dim][16 slots]
///          bf16 [kv_heads][head_dim / 2][16 slots][2]: dims 2 i and 2 i + 1 of a slot share a
///          32-bit word
///   values f32  [kv_heads][16 slots][head_dim]
///          bf16 [kv_heads][head_dim / 16][8][16 dims][2]: slots 2 i and 2 i + 1 of a dim share a
///          32-bit word; where head_dim is no multiple of 16, the last strip has the dims left
/// Keys stand transposed so that a score is one accumulator per slot with no sum across lanes.
/// Words are pairs of factors of one sum, as VDPBF16PS takes them; strips of 16 dims let a walk
/// over slots read memory in order. head_dim is even; a block's layer share starts at a multiple of
/// 64 bytes.
struct KvLayout {
  KvType type = KvType::bf16;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;

  constexpr std::size_t element_bytes() const { return type == KvType::bf16 ? 2 : 4; }
  constexpr std::size_t head_bytes() const {
    return static_cast<std::size_t>(kKvBlockTokens) * static_cast<std::size_t>(head_dim) *
           element_bytes();
  }
  constexpr std::size_t key_offset(std::int32_t head) const {
    return static_cast<std::size_t>(head) * head_bytes();
  }
  constexpr std::size_t value_offset(std::int32_t head) const {
    return static_cast<std::size_t>(kv_heads + head) * head_bytes();
  }
  /// Of bf16 values, the element of `slot` and `dim` behind the head's first.
  constexpr std::int64_t half_value(std::int32_t slot, std::int64_t dim) const {
    const std::int64_t strip = dim / 16 * 16;
    const std::int64_t width = head_dim - strip < 16 ? head_dim - strip : 16;
    return strip * kKvBlockTokens + (slot / 2 * width + dim % 16) * 2 + slot % 2;
  }
  /// Bytes of one layer in a block; a multiple of 64 for every even head_dim.
  constexpr std::size_t layer_bytes() const {
    return 2 * static_cast<std::size_t>(kv_heads) * head_bytes();
  }
};

/// Copies the first `tokens` slots of one layer's share of a block; the others keep what they hold.
void copy_kv_slots(const KvLayout& layout, const std::byte* from, std::byte* to,
                   std::int32_t tokens);

}  // namespace cairn::kernels
