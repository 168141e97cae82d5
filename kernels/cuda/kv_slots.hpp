// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/paged_kv.hpp"

namespace cairn::kernels::cuda {

/// The first `tokens` slots of one block go to another.
struct alignas(16) KvSlotCopy {
  std::int32_t from = 0;
  std::int32_t to = 0;      // no other copy's `from` or `to`, and not its own `from`
  std::int32_t tokens = 0;  // at most 16
};

struct CopyKvSlotsArgs {
  std::byte* pool = nullptr;     // as PagedKv: block b at b * block_bytes
  std::int64_t block_bytes = 0;  // a multiple of 16
  std::int32_t layers = 0;       // side by side from the block's start
  std::int32_t kv_heads = 0;
  std::int32_t slot_bytes = 0;         // of one head's key: 2 head_dim; a multiple of 16
  const KvSlotCopy* copies = nullptr;  // [copy_count]
  std::int64_t copy_count = 0;
};

Grid copy_kv_slots_grid(const CopyKvSlotsArgs& args);

/// What a resume inside a block needs: a block of its own with the slots before it. Slots from
/// `tokens` on keep what they hold. Device pointers, 16-byte aligned; queued on `stream`. Throws
/// InvariantError for sizes it does not take, DeviceError when the launch is refused.
void copy_kv_slots(Stream stream, const CopyKvSlotsArgs& args);

}  // namespace cairn::kernels::cuda
