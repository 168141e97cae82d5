// SPDX-License-Identifier: Apache-2.0
// Keys and values of one attention layer on a device: blocks of 16 positions in one pool, found
// through a table per sequence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kv.hpp"
#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// A layer's share of a block is keys [kv_heads][16 slots][head_dim], then values likewise: as many
/// bytes as the CPU's KvLayout, but both with a slot's dims side by side. Element is Bf16 or F16.
template <class Element>
struct PagedKv {
  std::byte* pool = nullptr;      // block b at b * block_bytes; 16-byte aligned
  std::int64_t block_bytes = 0;   // a multiple of 16
  std::int64_t layer_offset = 0;  // from a block's start to this layer's share; a multiple of 16
  const std::int32_t* tables = nullptr;  // [sequences, table_stride]: blocks of each, in order
  std::int64_t table_stride = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;

  /// Slot 0 of one head in block `block`.
  CAIRN_HOST_DEVICE Element* keys(std::int64_t block, std::int32_t head) const {
    return share(block) + static_cast<std::int64_t>(head) * kKvBlockTokens * head_dim;
  }
  CAIRN_HOST_DEVICE Element* values(std::int64_t block, std::int32_t head) const {
    return keys(block, kv_heads + head);
  }
  bool aligned() const { return block_bytes % 16 == 0 && layer_offset % 16 == 0; }

 private:
  CAIRN_HOST_DEVICE Element* share(std::int64_t block) const {
    return reinterpret_cast<Element*>(pool + block * block_bytes + layer_offset);
  }
};

}  // namespace cairn::kernels::cuda
