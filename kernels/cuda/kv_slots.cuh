// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/kv_slots.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// blockIdx.x is the copy; each warp takes one head of one layer, whose slots are adjacent.
struct CopyKvSlots {
  using Args = CopyKvSlotsArgs;
  static constexpr const char* kName = "copy_kv_slots";
  static constexpr int kThreads = 128;
  static constexpr int kHeads = kThreads / 32;  // a block
  using V = Vec<std::uint32_t, 4>;

  static __device__ void run(const Args& a) {
    const auto copy = load_read_only(a.copies + blockIdx.x);
    const auto head = static_cast<std::int32_t>(blockIdx.y * kHeads + threadIdx.x / 32);
    if (head >= a.layers * 2 * a.kv_heads) return;
    const std::int64_t at = static_cast<std::int64_t>(head) * kKvBlockTokens * a.slot_bytes;
    const auto* from = reinterpret_cast<const V*>(a.pool + copy.from * a.block_bytes + at);
    auto* to = reinterpret_cast<V*>(a.pool + copy.to * a.block_bytes + at);
    const std::int32_t units = copy.tokens * a.slot_bytes / 16;
    for (auto i = static_cast<std::int32_t>(threadIdx.x % 32); i < units; i += 32) {
      store_global(to + i, load_read_only(from + i));
    }
  }
};

}  // namespace cairn::kernels::cuda
