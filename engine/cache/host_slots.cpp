// SPDX-License-Identifier: Apache-2.0
// Slots in the host's memory: each kind has address space for the whole budget, and pages that were
// touched and freed go back to the system when the other kind needs the room.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "engine/cache/page_ahead.hpp"
#include "engine/cache/slot_memory.hpp"
#include "model/net/host_limits.hpp"

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
// Mappings of this size and more ask for huge pages: states and keys are streamed through at every
// token, which small pages slow to two thirds. A fresh slot may bring up to a huge page of its
// neighbours; given back, a slot's part of one goes alone.
constexpr std::size_t kHugeMapping = std::size_t{64} << 20;
// Slots of models whose states are at least so large have their pages ahead of use; clearing the
// others' costs nothing that anyone would notice.
constexpr std::size_t kLargeState = std::size_t{2} << 20;
// Of each kind, kept ahead while work runs, too.
constexpr std::size_t kFewBytes = std::size_t{64} << 20;
// Left to everyone else: a budget may be larger than the memory that is there.
constexpr std::uint64_t kSpareBytes = std::uint64_t{512} << 20;

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
    if (bytes >= kHugeMapping) ::madvise(p, bytes, MADV_HUGEPAGE);  // failing costs speed only
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

// Slots of one size. A slot is
// live, touched and free (its pages are resident), or clean and free (they are not).
class SlotPool {
 public:
  SlotPool(std::size_t slot_bytes, std::int32_t slots, const char* what)
      : slot_bytes_(slot_bytes),
        // Slots of a page and more own their pages, so that each can give them back alone. Smaller
        // ones (toy models) share pages and keep them.
        stride_(round_up(slot_bytes, slot_bytes >= page_bytes() ? page_bytes() : kLineBytes)),
        slots_(slots),
        memory_(std::max(stride_, kLineBytes) * static_cast<std::size_t>(std::max(slots, 1)),
                what) {
    // Returning a slot must not allocate: it happens in destructors.
    touched_.reserve(static_cast<std::size_t>(slots));
    clean_.reserve(static_cast<std::size_t>(slots));
  }

  std::size_t slot_bytes() const { return slot_bytes_; }
  std::byte* data(std::int32_t id) const {
    return memory_.base() + static_cast<std::size_t>(id) * stride_;
  }

  bool has_touched_free() const { return !touched_.empty(); }
  // For good, while this lives.
  void keep_ahead() {
    PageAhead::Options options;
    options.few = static_cast<std::int32_t>(std::max<std::size_t>(kFewBytes / stride_, 2));
    options.spare = [] {
      const std::uint64_t available = model::available_memory();
      return available == 0 || available > kSpareBytes;  // 0: unknown
    };
    ahead_ = std::make_unique<PageAhead>(memory_.base(), stride_, slots_, std::move(options));
  }
  // So many bytes of slots that were never handed out are to have pages.
  void want_ahead(std::uint64_t bytes) {
    if (ahead_) ahead_->want(static_cast<std::int64_t>(bytes / stride_));
  }
  std::uint64_t ahead_bytes() const { return ahead_ ? ahead_->ahead_bytes() : 0; }
  // Whether the next slot has no pages yet.
  bool brings_pages() const {
    return touched_.empty() && (!clean_.empty() || !ahead_ || ahead_->ahead() == 0);
  }
  void set_quiet(bool quiet) {
    if (ahead_) ahead_->set_quiet(quiet);
  }
  std::int64_t touched_free() const { return static_cast<std::int64_t>(touched_.size()); }
  std::int32_t slots() const { return slots_; }

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
      if (ahead_) ahead_->hand_out(fresh_);
    }
    mark_live(data(id), slot_bytes_);
    return id;
  }
  void put(std::int32_t id) {
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

 private:
  const std::size_t slot_bytes_, stride_;
  const std::int32_t slots_;
  Mapping memory_;
  std::vector<std::int32_t> touched_, clean_;
  std::int32_t fresh_ = 0;            // slots at and above were never handed out
  std::unique_ptr<PageAhead> ahead_;  // of fresh_; null: pages come as they are touched
};

std::int32_t slots_within(std::uint64_t budget, std::size_t bytes) {
  const std::uint64_t n = budget / bytes;
  return static_cast<std::int32_t>(
      std::min<std::uint64_t>(n, std::numeric_limits<std::int32_t>::max()));
}

// Invariants, under the owner's mutex: bytes of live and reserved slots of both kinds <= budget,
// and bytes of live and of touched free slots <= budget, so that resident memory follows the
// budget.
class HostSlots final : public SlotMemory {
 public:
  HostSlots(model::MemoryLayout layout, std::uint64_t budget, std::uint64_t ahead)
      : SlotMemory(layout, budget),
        ahead_(ahead),
        blocks_(layout.kv_block_bytes, slots_within(budget, layout.kv_block_bytes), "KV blocks"),
        states_(layout.state_bytes, slots_within(budget, layout.state_bytes), "states") {
    if (layout.state_bytes < kLargeState || ahead == 0) return;
    blocks_.keep_ahead();
    states_.keep_ahead();
    divide_ahead(0);
  }

  std::int32_t slots(SlotKind kind) const override { return pool(kind).slots(); }
  std::byte* data(SlotKind kind, std::int32_t id) const override { return pool(kind).data(id); }

  bool could_ever_fit(std::int64_t blocks, std::int64_t states) const override {
    if (blocks < 0 || states < 0) return false;
    const auto b = static_cast<std::uint64_t>(blocks), s = static_cast<std::uint64_t>(states);
    if (b > budget() / bytes_of(SlotKind::block) || s > budget() / bytes_of(SlotKind::state)) {
      return false;
    }
    return b * bytes_of(SlotKind::block) + s * bytes_of(SlotKind::state) <= budget();
  }

  std::uint64_t lacking_bytes(std::int64_t blocks, std::int64_t states) const override {
    const std::uint64_t more = static_cast<std::uint64_t>(blocks) * bytes_of(SlotKind::block) +
                               static_cast<std::uint64_t>(states) * bytes_of(SlotKind::state);
    const std::uint64_t free = budget() - used_bytes();
    return more > free ? more - free : 0;
  }

  std::int32_t take(SlotKind kind) override {
    SlotPool& own = pool(kind);
    SlotPool& other = pool(kind == SlotKind::block ? SlotKind::state : SlotKind::block);
    if (!own.has_touched_free()) {
      // The slot will bring new pages. All live slots and this one fit the budget, so the other
      // kind's free pages are enough to make room.
      while (other.has_touched_free() && resident_bytes() + own.slot_bytes() > budget()) {
        other.clean_one();
      }
    }
    const bool touched = own.has_touched_free();
    if (own.brings_pages()) divide_ahead(own.slot_bytes());
    ++live[index_of(kind)];
    const std::int32_t id = own.take();
    if (!touched) divide_ahead(0);
    return id;
  }
  void put(SlotKind kind, std::int32_t id) override {
    --live[index_of(kind)];
    pool(kind).put(id);
  }
  std::uint64_t pages_ahead() const override {
    return layout().state_bytes < kLargeState ? 0 : std::min(ahead_, budget());
  }
  void set_quiet(bool quiet) override {
    blocks_.set_quiet(quiet);
    states_.set_quiet(quiet);
  }

 private:
  const SlotPool& pool(SlotKind kind) const { return kind == SlotKind::block ? blocks_ : states_; }
  SlotPool& pool(SlotKind kind) { return kind == SlotKind::block ? blocks_ : states_; }
  std::uint64_t resident_bytes() const {
    std::uint64_t bytes = 0;
    for (const SlotKind kind : {SlotKind::block, SlotKind::state}) {
      const std::int64_t slots = live[index_of(kind)] + pool(kind).touched_free();
      bytes += static_cast<std::uint64_t>(slots) * bytes_of(kind);
    }
    return bytes;
  }

  // What `coming` bytes leave of the budget, as far as it may be ahead: half of it to each kind,
  // but what a kind has beyond its half stays while the other does without.
  void divide_ahead(std::uint64_t coming) {
    const std::uint64_t resident = resident_bytes() + coming;
    const std::uint64_t left = std::min(resident < budget() ? budget() - resident : 0, ahead_);
    const std::uint64_t half = left / 2;
    const std::uint64_t of_states = std::min(states_.ahead_bytes(), left);
    const std::uint64_t blocks = std::clamp(blocks_.ahead_bytes(), std::min(half, left - of_states),
                                            std::max(half, left - of_states));
    blocks_.want_ahead(blocks);
    states_.want_ahead(std::min(std::max(of_states, half), left - blocks));
  }

  const std::uint64_t ahead_;  // bytes
  SlotPool blocks_, states_;
};

}  // namespace

std::unique_ptr<SlotMemory> make_host_slots(model::MemoryLayout layout, std::uint64_t budget,
                                            std::uint64_t ahead) {
  require_budget(budget, layout.kv_block_bytes + layout.state_bytes);
  return std::make_unique<HostSlots>(layout, budget, ahead);
}

}  // namespace cairn::engine
