// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/pools.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "engine/cache/slot_memory.hpp"

namespace cairn::engine {

void require_budget(std::uint64_t budget, std::uint64_t least) {
  if (budget >= least) return;
  throw DeviceError("the cache budget holds not even one state and one KV block: " +
                    std::to_string(least) + " bytes needed (" + format_bytes(least) + "), " +
                    std::to_string(budget) + " bytes available (" + format_bytes(budget) + ")");
}

// Reference counts, and the mutex over everything else.
class PoolCore : public std::enable_shared_from_this<PoolCore> {
 public:
  explicit PoolCore(std::unique_ptr<SlotMemory> memory) : memory_(std::move(memory)) {
    for (const SlotKind kind : {SlotKind::block, SlotKind::state}) {
      const auto slots = static_cast<std::size_t>(memory_->slots(kind));
      counts_[index_of(kind)] = std::make_unique<std::atomic<std::int32_t>[]>(slots);
    }
  }

  const SlotMemory& memory() const { return *memory_; }
  std::atomic<std::int32_t>& count(SlotKind kind, std::int32_t id) const {
    return counts_[index_of(kind)][static_cast<std::size_t>(id)];
  }

  void add_ref(SlotKind kind, std::int32_t id) {
    count(kind, id).fetch_add(1, std::memory_order_relaxed);
  }
  // acq_rel: whoever takes the slot next sees every access through the handles that let it go.
  void drop_ref(SlotKind kind, std::int32_t id) {
    if (count(kind, id).fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::shared_ptr<PoolCore> last;  // goes after the lock
    const std::lock_guard lock(mutex_);
    memory_->put(kind, id);
    if (memory_->live[0] + memory_->live[1] == 0) last = std::move(self_);
  }

  bool reserve(std::int32_t blocks, std::int32_t states) {
    check(blocks >= 0 && states >= 0, "a reservation of fewer than no objects");
    const std::lock_guard lock(mutex_);
    if (memory_->lacking_bytes(blocks, states) > 0) return false;
    change_reserved(blocks, states);
    return true;
  }
  void cancel(std::int32_t blocks, std::int32_t states) {
    const std::lock_guard lock(mutex_);
    change_reserved(-blocks, -states);
  }
  std::uint64_t lacking_bytes(std::int32_t blocks, std::int32_t states) const {
    const std::lock_guard lock(mutex_);
    return memory_->lacking_bytes(blocks, states);
  }

  std::int32_t take_reserved(SlotKind kind) {
    const std::lock_guard lock(mutex_);
    const std::int32_t id = memory_->take(kind);
    --memory_->reserved[index_of(kind)];
    if (self_ == nullptr) self_ = shared_from_this();
    count(kind, id).store(1, std::memory_order_relaxed);
    return id;
  }

  void set_quiet(bool quiet) {
    const std::lock_guard lock(mutex_);
    memory_->set_quiet(quiet);
    quiet_ = quiet;
  }

  PoolUsage usage() const {
    const std::lock_guard lock(mutex_);
    PoolUsage u;
    u.blocks_live = memory_->live[index_of(SlotKind::block)];
    u.states_live = memory_->live[index_of(SlotKind::state)];
    u.blocks_reserved = memory_->reserved[index_of(SlotKind::block)];
    u.states_reserved = memory_->reserved[index_of(SlotKind::state)];
    u.bytes_used = memory_->used_bytes();
    u.bytes_budget = memory_->budget();
    u.quiet = quiet_;
    return u;
  }

 private:
  void change_reserved(std::int32_t blocks, std::int32_t states) {
    memory_->reserved[index_of(SlotKind::block)] += blocks;
    memory_->reserved[index_of(SlotKind::state)] += states;
  }

  const std::unique_ptr<SlotMemory> memory_;
  std::array<std::unique_ptr<std::atomic<std::int32_t>[]>, kSlotKinds> counts_;
  mutable std::mutex mutex_;
  std::shared_ptr<PoolCore> self_;  // while a slot is live
  bool quiet_ = true;
};

template <SlotKind kKind>
SlotRef<kKind>::SlotRef(const SlotRef& other) : core_(other.core_), id_(other.id_) {
  if (core_) core_->add_ref(kKind, id_);
}
template <SlotKind kKind>
SlotRef<kKind> SlotRef<kKind>::sibling(std::int32_t id) const {
  core_->add_ref(kKind, id);
  return SlotRef(core_, id);
}
template <SlotKind kKind>
SlotRef<kKind>::SlotRef(SlotRef&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)), id_(std::exchange(other.id_, -1)) {}
template <SlotKind kKind>
SlotRef<kKind>& SlotRef<kKind>::operator=(SlotRef other) noexcept {
  std::swap(core_, other.core_);
  std::swap(id_, other.id_);
  return *this;
}
template <SlotKind kKind>
SlotRef<kKind>::~SlotRef() {
  if (core_) core_->drop_ref(kKind, id_);
}
template <SlotKind kKind>
std::byte* SlotRef<kKind>::data() const {
  return core_ ? core_->memory().data(kKind, id_) : nullptr;
}
template <SlotKind kKind>
std::int32_t SlotRef<kKind>::use_count() const {
  return core_ ? core_->count(kKind, id_).load(std::memory_order_acquire) : 0;
}
template class SlotRef<SlotKind::block>;
template class SlotRef<SlotKind::state>;

Reservation::Reservation(Reservation&& other) noexcept
    : core_(std::move(other.core_)),
      blocks_(std::exchange(other.blocks_, 0)),
      states_(std::exchange(other.states_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Reservation old(std::move(*this));
  core_ = std::move(other.core_);
  blocks_ = std::exchange(other.blocks_, 0);
  states_ = std::exchange(other.states_, 0);
  return *this;
}

Reservation::~Reservation() {
  if (core_ && (blocks_ > 0 || states_ > 0)) core_->cancel(blocks_, states_);
}

KvBlockRef Reservation::take_block() {
  check(blocks_ > 0, "a block was taken that nobody reserved");
  const std::int32_t id = core_->take_reserved(SlotKind::block);
  --blocks_;
  return KvBlockRef(core_.get(), id);
}

StateRef Reservation::take_state() {
  check(states_ > 0, "a state was taken that nobody reserved");
  const std::int32_t id = core_->take_reserved(SlotKind::state);
  --states_;
  return StateRef(core_.get(), id);
}

MemoryPools::MemoryPools(model::MemoryLayout layout, std::uint64_t budget_bytes,
                         std::shared_ptr<model::Arena> arena, std::uint64_t ahead_bytes) {
  check(layout.kv_block_bytes > 0 && layout.state_bytes > 0, "a pool needs sizes above zero");
  core_ = std::make_shared<PoolCore>(arena ? make_slab_slots(layout, budget_bytes, std::move(arena))
                                           : make_host_slots(layout, budget_bytes, ahead_bytes));
}

std::uint64_t MemoryPools::pages_ahead() const { return core_->memory().pages_ahead(); }
void MemoryPools::set_quiet(bool quiet) { core_->set_quiet(quiet); }

std::optional<Reservation> MemoryPools::reserve(std::int32_t blocks, std::int32_t states) {
  if (!core_->reserve(blocks, states)) return std::nullopt;
  Reservation r;
  r.core_ = core_;
  r.blocks_ = blocks;
  r.states_ = states;
  return r;
}

std::uint64_t MemoryPools::lacking_bytes(std::int32_t blocks, std::int32_t states) const {
  return core_->lacking_bytes(blocks, states);
}
PoolUsage MemoryPools::usage() const { return core_->usage(); }
const model::MemoryLayout& MemoryPools::layout() const { return core_->memory().layout(); }
bool MemoryPools::could_ever_fit(std::int64_t blocks, std::int64_t states) const {
  return core_->memory().could_ever_fit(blocks, states);
}
bool MemoryPools::owns(const KvBlockRef& block) const { return block.core_ == core_.get(); }
bool MemoryPools::owns(const StateRef& state) const { return state.core_ == core_.get(); }

}  // namespace cairn::engine
