// SPDX-License-Identifier: Apache-2.0
// The memory of KV blocks and recurrent states: one byte budget, two sizes of object, handles that
// return what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "model/net/backend.hpp"

namespace cairn::engine {

class PoolCore;

enum class SlotKind : std::uint8_t { block, state };

/// Shared ownership of one KV block (16 positions, every attention layer) or one state. Copying
/// counts (one atomic addition), the last copy returns the slot, from any thread. Contents: written
/// by the executor only; what was already written never changes while anyone else holds the slot.
template <SlotKind kKind>
class SlotRef {
 public:
  SlotRef() = default;
  SlotRef(const SlotRef& other);
  SlotRef(SlotRef&& other) noexcept;
  SlotRef& operator=(SlotRef other) noexcept;
  ~SlotRef();

  explicit operator bool() const { return core_ != nullptr; }
  std::byte* data() const;
  std::int32_t id() const { return id_; }
  /// Another slot of the same pool, which somebody holds.
  SlotRef sibling(std::int32_t id) const;
  std::int32_t use_count() const;  // exact only when no other thread copies

 private:
  friend class MemoryPools;
  friend class Reservation;
  SlotRef(PoolCore* core, std::int32_t id) : core_(core), id_(id) {}
  PoolCore* core_ = nullptr;  // lives while one of its slots does
  std::int32_t id_ = -1;
};
using KvBlockRef = SlotRef<SlotKind::block>;
using StateRef = SlotRef<SlotKind::state>;

/// A promise of bytes: taking from it cannot fail. Returns what was not taken. Move-only; one
/// thread at a time.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  ~Reservation();

  std::int32_t blocks_left() const { return blocks_; }
  std::int32_t states_left() const { return states_; }
  KvBlockRef take_block();  // CHECKs blocks_left() > 0
  StateRef take_state();

 private:
  friend class MemoryPools;
  std::shared_ptr<PoolCore> core_;
  std::int32_t blocks_ = 0;
  std::int32_t states_ = 0;
};

struct PoolUsage {
  std::int64_t blocks_live = 0, states_live = 0;
  std::int64_t blocks_reserved = 0, states_reserved = 0;
  std::uint64_t bytes_used = 0;  // live and reserved
  std::uint64_t bytes_budget = 0;
  bool quiet = true;  // as told
};

/// Thread-safe; owned by the engine, outlived by its handles.
///
/// In the host's memory address space for the whole budget is reserved at once; pages that were
/// touched and freed are given back to the system when the other kind needs the room, so that
/// resident memory stays near the budget. In an arena both kinds share slabs of one state's size:
/// a slab that holds a block holds no state, so that what fits by bytes may not fit now.
class MemoryPools {
 public:
  /// In the arena where there is one, which lives as long as the handles do. `ahead_bytes` of the
  /// host's memory at most are obtained before they are needed, where states are large. Throws
  /// DeviceError when the address space cannot be had or the budget holds not even one state and
  /// one block.
  MemoryPools(model::MemoryLayout layout, std::uint64_t budget_bytes,
              std::shared_ptr<model::Arena> arena = nullptr,
              std::uint64_t ahead_bytes = std::numeric_limits<std::uint64_t>::max());

  /// Bytes that may be obtained so: none of an arena, none of models with small states.
  std::uint64_t pages_ahead() const;
  /// Whether nothing runs: the time for that. So at first.
  void set_quiet(bool quiet);

  /// nullopt: does not fit now.
  std::optional<Reservation> reserve(std::int32_t blocks, std::int32_t states);
  /// What has to come back at least before reserve() can grant these; 0: it can now.
  std::uint64_t lacking_bytes(std::int32_t blocks, std::int32_t states) const;

  PoolUsage usage() const;
  const model::MemoryLayout& layout() const;
  /// Whether blocks and states of that number would fit an empty pool.
  bool could_ever_fit(std::int64_t blocks, std::int64_t states) const;
  /// Whether a handle is one of these pools' (and not a late one of pools that were given up).
  bool owns(const KvBlockRef& block) const;
  bool owns(const StateRef& state) const;

 private:
  std::shared_ptr<PoolCore> core_;
};

/// Blocks that hold `tokens` positions.
constexpr std::int32_t blocks_for(std::int32_t tokens) {
  return (tokens + model::kBlockTokens - 1) / model::kBlockTokens;
}

}  // namespace cairn::engine
