// SPDX-License-Identifier: Apache-2.0
// Where the slots of the pools lie and which of them are free: in the host's memory or on a device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/cache/pools.hpp"
#include "model/net/backend.hpp"

namespace cairn::engine {

inline constexpr std::size_t kSlotKinds = 2;
constexpr std::size_t index_of(SlotKind kind) { return static_cast<std::size_t>(kind); }

/// Bookkeeping of one range of memory. All but layout(), budget(), slots(), data(), pages_ahead()
/// and could_ever_fit() under its owner's mutex. What is reserved can be taken: that is the
/// invariant of every implementation. put() and cancel() do not allocate.
class SlotMemory {
 public:
  SlotMemory(model::MemoryLayout layout, std::uint64_t budget) : layout_(layout), budget_(budget) {}
  SlotMemory(const SlotMemory&) = delete;
  virtual ~SlotMemory() = default;

  const model::MemoryLayout& layout() const { return layout_; }
  std::uint64_t budget() const { return budget_; }  // bytes
  /// Ids of that kind are below it.
  virtual std::int32_t slots(SlotKind kind) const = 0;
  virtual std::byte* data(SlotKind kind, std::int32_t id) const = 0;
  /// Whether an empty memory would hold these.
  virtual bool could_ever_fit(std::int64_t blocks, std::int64_t states) const = 0;

  /// What has to be given back before these can be reserved; 0: they can. Where slots of one kind
  /// stand in the way of the other it can take more.
  virtual std::uint64_t lacking_bytes(std::int64_t blocks, std::int64_t states) const = 0;
  /// Of what is reserved.
  virtual std::int32_t take(SlotKind kind) = 0;
  virtual void put(SlotKind kind, std::int32_t id) = 0;
  /// Bytes that may be obtained from the system before they are needed.
  virtual std::uint64_t pages_ahead() const { return 0; }
  /// Whether nothing runs: the time for that.
  virtual void set_quiet(bool) {}

  std::uint64_t bytes_of(SlotKind kind) const {
    return kind == SlotKind::block ? layout_.kv_block_bytes : layout_.state_bytes;
  }
  /// Of live and reserved slots.
  std::uint64_t used_bytes() const {
    std::uint64_t bytes = 0;
    for (const SlotKind kind : {SlotKind::block, SlotKind::state}) {
      const std::size_t k = index_of(kind);
      bytes += static_cast<std::uint64_t>(live[k] + reserved[k]) * bytes_of(kind);
    }
    return bytes;
  }

  // By kind; `reserved` is the owner's to change, `live` that of take() and put().
  std::array<std::int64_t, kSlotKinds> live{};
  std::array<std::int64_t, kSlotKinds> reserved{};

 private:
  const model::MemoryLayout layout_;
  const std::uint64_t budget_;
};

/// Slots in address space of the process, twice the budget of it, of which no more than the budget
/// is resident; of that as much as `ahead` before it is needed (page_ahead.hpp). Throws DeviceError
/// where there is none.
std::unique_ptr<SlotMemory> make_host_slots(model::MemoryLayout layout, std::uint64_t budget,
                                            std::uint64_t ahead);

/// Slots in at most `budget` bytes of an arena. Both kinds share it in slabs of one state's size: a
/// slab holds slots of one kind, and is free for either again when the last of them returns.
std::unique_ptr<SlotMemory> make_slab_slots(model::MemoryLayout layout, std::uint64_t budget,
                                            std::shared_ptr<model::Arena> arena);

/// Throws DeviceError when `budget` is below `least`, the bytes of one state and one block.
void require_budget(std::uint64_t budget, std::uint64_t least);

}  // namespace cairn::engine
