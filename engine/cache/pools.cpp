// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/pools.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define CAIRN_POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_POOL_ASAN 1
#endif
#endif
#ifdef CAIRN_POOL_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace cairn::engine {
namespace {

constexpr std::size_t kLineBytes = 64;

// A freed slot is unreadable under AddressSanitizer, so that a stale pointer into it is caught.
void mark_free([[maybe_unused]] std::byte* p, [[maybe_unused]] std::size_t n) {
#ifdef CAIRN_POOL_ASAN
  ASAN_POISON_MEMORY_REGION(p, n);
#endif
}
void mark_live([[maybe_unused]] std::byte* p, [[maybe_unused]] std::size_t n) {
#ifdef CAIRN_POOL_ASAN
  ASAN_UNPOISON_MEMORY_REGION(p, n);
#endif
}

std::size_t page_bytes() {
  static const std::size_t bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Address space obtained from the system, given back on destruction.
class Mapping {
 public:
  Mapping(std::size_t bytes, const char* what) : bytes_(bytes) {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      throw DeviceError(std::string("no address space for the pool of ") + what + ": " +
                        std::to_string(bytes) + " bytes needed, none given by the system");
    }
    base_ = static_cast<std::byte*>(p);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    mark_live(base_, bytes_);
    ::munmap(base_, bytes_);
  }
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_;
};

// Slots of one size. Everything but the reference counts is guarded by the core's mutex. A slot is
// live, touched and free (its pages are resident), or clean and free (they are not).
class SlotPool {
 public:
  SlotPool(std::size_t slot_bytes, std::int32_t slots, const char* what)
      : slot_bytes_(slot_bytes),
        // Slots of a page and more own their pages, so that each can give them back alone. Smaller
        // ones (toy models) share pages and keep them.
        stride_(round_up(slot_bytes, slot_bytes >= page_bytes() ? page_bytes() : kLineBytes)),
        slots_(slots),
        memory_(std::max(stride_, kLineBytes) * static_cast<std::size_t>(std::max(slots, 1)), what),
        counts_(std::make_unique<std::atomic<std::int32_t>[]>(static_cast<std::size_t>(slots))) {
    // Returning a slot must not allocate: it happens in destructors.
    touched_.reserve(static_cast<std::size_t>(slots));
    clean_.reserve(static_cast<std::size_t>(slots));
  }

  std::size_t slot_bytes() const { return slot_bytes_; }
  std::byte* data(std::int32_t id) const {
    return memory_.base() + static_cast<std::size_t>(id) * stride_;
  }
  std::atomic<std::int32_t>& count(std::int32_t id) const {
    return counts_[static_cast<std::size_t>(id)];
  }

  bool has_touched_free() const { return !touched_.empty(); }
  std::int64_t resident_slots() const { return live + static_cast<std::int64_t>(touched_.size()); }

  std::int32_t take() {
    std::int32_t id = 0;
    if (!touched_.empty()) {
      id = touched_.back();
      touched_.pop_back();
    } else if (!clean_.empty()) {
      id = clean_.back();
      clean_.pop_back();
    } else {
      check(fresh_ < slots_, "a pool has no slot although its budget does");
      id = fresh_++;
    }
    ++live;
    mark_live(data(id), slot_bytes_);
    count(id).store(1, std::memory_order_relaxed);
    return id;
  }
  void put(std::int32_t id) {
    --live;
    mark_free(data(id), slot_bytes_);
    touched_.push_back(id);
  }
  // Gives the pages of one free slot back to the system.
  void clean_one() {
    const std::int32_t id = touched_.back();
    touched_.pop_back();
    if (slot_bytes_ >= page_bytes()) ::madvise(data(id), stride_, MADV_DONTNEED);
    clean_.push_back(id);
  }

  std::int64_t live = 0;
  std::int64_t reserved = 0;

 private:
  const std::size_t slot_bytes_, stride_;
  const std::int32_t slots_;
  Mapping memory_;
  std::unique_ptr<std::atomic<std::int32_t>[]> counts_;
  std::vector<std::int32_t> touched_, clean_;
  std::int32_t fresh_ = 0;  // slots at and above were never handed out
};

std::int32_t slots_within(std::uint64_t budget, std::size_t bytes) {
  const std::uint64_t n = budget / bytes;
  return static_cast<std::int32_t>(
      std::min<std::uint64_t>(n, std::numeric_limits<std::int32_t>::max()));
}

model::MemoryLayout checked(model::MemoryLayout layout, std::uint64_t budget) {
  check(layout.kv_block_bytes > 0 && layout.state_bytes > 0, "a pool needs sizes above zero");
  const std::uint64_t least = layout.kv_block_bytes + layout.state_bytes;
  if (budget < least) {
    throw DeviceError("the cache budget holds not even one state and one KV block: " +
                      std::to_string(least) + " bytes needed (" + format_bytes(least) + "), " +
                      std::to_string(budget) + " bytes available (" + format_bytes(budget) + ")");
  }
  return layout;
}

}  // namespace

// Invariants, under the mutex: bytes of live and reserved objects of both kinds <= budget, and
// bytes of live and of touched free slots <= budget, so that resident memory follows the budget.
class PoolCore : public std::enable_shared_from_this<PoolCore> {
 public:
  PoolCore(model::MemoryLayout layout, std::uint64_t budget)
      : layout_(checked(layout, budget)),
        budget_(budget),
        blocks_(layout.kv_block_bytes, slots_within(budget, layout.kv_block_bytes), "KV blocks"),
        states_(layout.state_bytes, slots_within(budget, layout.state_bytes), "states") {}

  const model::MemoryLayout& layout() const { return layout_; }
  SlotPool& pool(SlotKind kind) { return kind == SlotKind::block ? blocks_ : states_; }

  void add_ref(SlotKind kind, std::int32_t id) {
    pool(kind).count(id).fetch_add(1, std::memory_order_relaxed);
  }
  // acq_rel: whoever takes the slot next sees every access through the handles that let it go.
  void drop_ref(SlotKind kind, std::int32_t id) {
    if (pool(kind).count(id).fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::shared_ptr<PoolCore> last;  // goes after the lock
    const std::lock_guard lock(mutex_);
    pool(kind).put(id);
    if (blocks_.live + states_.live == 0) last = std::move(self_);
  }

  bool could_ever_fit(std::int64_t blocks, std::int64_t states) const {
    if (blocks < 0 || states < 0) return false;
    const auto b = static_cast<std::uint64_t>(blocks), s = static_cast<std::uint64_t>(states);
    if (b > budget_ / layout_.kv_block_bytes || s > budget_ / layout_.state_bytes) return false;
    return b * layout_.kv_block_bytes + s * layout_.state_bytes <= budget_;
  }

  bool reserve(std::int32_t blocks, std::int32_t states) {
    check(blocks >= 0 && states >= 0, "a reservation of fewer than no objects");
    if (!could_ever_fit(blocks, states)) return false;
    const std::lock_guard lock(mutex_);
    const std::uint64_t more = static_cast<std::uint64_t>(blocks) * layout_.kv_block_bytes +
                               static_cast<std::uint64_t>(states) * layout_.state_bytes;
    if (more > budget_ - used_bytes()) return false;
    blocks_.reserved += blocks;
    states_.reserved += states;
    return true;
  }
  void cancel(std::int32_t blocks, std::int32_t states) {
    const std::lock_guard lock(mutex_);
    blocks_.reserved -= blocks;
    states_.reserved -= states;
  }

  std::int32_t take_reserved(SlotKind kind) {
    SlotPool& pool = this->pool(kind);
    SlotPool& other = this->pool(kind == SlotKind::block ? SlotKind::state : SlotKind::block);
    const std::lock_guard lock(mutex_);
    if (!pool.has_touched_free()) {
      // The slot will bring new pages. All live slots and this one fit the budget, so the other
      // kind's free pages are enough to make room.
      while (other.has_touched_free() && resident_bytes() + pool.slot_bytes() > budget_) {
        other.clean_one();
      }
    }
    --pool.reserved;
    if (self_ == nullptr) self_ = shared_from_this();
    return pool.take();
  }

  PoolUsage usage() const {
    const std::lock_guard lock(mutex_);
    PoolUsage u;
    u.blocks_live = blocks_.live;
    u.states_live = states_.live;
    u.blocks_reserved = blocks_.reserved;
    u.states_reserved = states_.reserved;
    u.bytes_used = used_bytes();
    u.bytes_budget = budget_;
    return u;
  }

 private:
  std::uint64_t used_bytes() const {
    return static_cast<std::uint64_t>(blocks_.live + blocks_.reserved) * layout_.kv_block_bytes +
           static_cast<std::uint64_t>(states_.live + states_.reserved) * layout_.state_bytes;
  }
  std::uint64_t resident_bytes() const {
    return static_cast<std::uint64_t>(blocks_.resident_slots()) * layout_.kv_block_bytes +
           static_cast<std::uint64_t>(states_.resident_slots()) * layout_.state_bytes;
  }

  const model::MemoryLayout layout_;
  const std::uint64_t budget_;
  mutable std::mutex mutex_;
  SlotPool blocks_, states_;
  std::shared_ptr<PoolCore> self_;  // while a slot is live
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
  return core_ ? core_->pool(kKind).data(id_) : nullptr;
}
template <SlotKind kKind>
std::int32_t SlotRef<kKind>::use_count() const {
  return core_ ? core_->pool(kKind).count(id_).load(std::memory_order_acquire) : 0;
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

MemoryPools::MemoryPools(model::MemoryLayout layout, std::uint64_t budget_bytes)
    : core_(std::make_shared<PoolCore>(layout, budget_bytes)) {}

std::optional<Reservation> MemoryPools::reserve(std::int32_t blocks, std::int32_t states) {
  if (!core_->reserve(blocks, states)) return std::nullopt;
  Reservation r;
  r.core_ = core_;
  r.blocks_ = blocks;
  r.states_ = states;
  return r;
}

PoolUsage MemoryPools::usage() const { return core_->usage(); }
const model::MemoryLayout& MemoryPools::layout() const { return core_->layout(); }
bool MemoryPools::could_ever_fit(std::int64_t blocks, std::int64_t states) const {
  return core_->could_ever_fit(blocks, states);
}
bool MemoryPools::owns(const KvBlockRef& block) const { return block.core_ == core_.get(); }
bool MemoryPools::owns(const StateRef& state) const { return state.core_ == core_.get(); }

}  // namespace cairn::engine
