// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/kv_slots.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {

Grid copy_kv_slots_grid(const CopyKvSlotsArgs& args) {
  const std::int64_t heads = std::int64_t{2} * args.layers * args.kv_heads;
  return {args.copy_count, static_cast<std::int32_t>(ceil_div(heads, CopyKvSlots::kHeads))};
}

void copy_kv_slots(Stream stream, const CopyKvSlotsArgs& args) {
  const std::int64_t slots = std::int64_t{2} * args.layers * args.kv_heads * kKvBlockTokens;
  check(args.slot_bytes % 16 == 0 && args.block_bytes % 16 == 0,
        "copy_kv_slots: slots and blocks are multiples of 16 bytes");
  check(slots * args.slot_bytes <= args.block_bytes, "copy_kv_slots: a block holds its layers");
  launch<CopyKvSlots>(copy_kv_slots_grid(args), stream, args);
}

}  // namespace cairn::kernels::cuda
