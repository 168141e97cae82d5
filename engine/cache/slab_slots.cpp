// SPDX-License-Identifier: Apache-2.0
// Slots in one range that cannot be committed twice: on a device there is no overcommit.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "engine/cache/slot_memory.hpp"

namespace cairn::engine {
namespace {

constexpr std::uint64_t kUnitBytes = 256;  // alignment of slots
constexpr std::int32_t kNone = -1;

constexpr std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Invariant, under the owner's mutex: the slabs that the promised slots of either kind need beyond
// the free slots of slabs that are cut for it already are not more than the empty slabs. Taking
// from a cut slab changes neither side; cutting one takes one of each; a slab that becomes empty
// adds to what is needed at most what it gives.
class SlabSlots final : public SlotMemory {
 public:
  SlabSlots(model::MemoryLayout layout, std::uint64_t slab_bytes, std::int32_t slabs,
            std::shared_ptr<model::Arena> arena);

  std::int32_t slots(SlotKind kind) const override {
    return static_cast<std::int32_t>(slabs_.size()) * of(kind).per_slab;
  }
  std::byte* data(SlotKind kind, std::int32_t id) const override {
    const Kind& k = of(kind);
    const std::uint64_t slab = static_cast<std::uint64_t>(id / k.per_slab) * slab_bytes_;
    return arena_->data() + slab + static_cast<std::uint64_t>(id % k.per_slab) * k.stride;
  }
  bool could_ever_fit(std::int64_t blocks, std::int64_t states) const override;
  std::uint64_t lacking_bytes(std::int64_t blocks, std::int64_t states) const override;
  std::int32_t take(SlotKind kind) override;
  void put(SlotKind kind, std::int32_t id) override;

 private:
  struct Slab {
    std::int32_t used = 0;
    std::int32_t fresh = 0;          // slots at and above were not taken since it was cut
    std::int32_t free_slot = kNone;  // a list of those that were, by id
    std::int32_t before = kNone, after = kNone;  // in its list
  };
  struct Kind {
    std::uint64_t stride = 0;
    std::int32_t per_slab = 1;
    std::int64_t free = 0;                // slots in slabs that are cut for it
    std::vector<std::int32_t> lists;      // [per_slab]: slabs with so many slots in use
    std::vector<std::int32_t> next_free;  // by slot id
  };
  const Kind& of(SlotKind kind) const { return kinds_[index_of(kind)]; }
  Slab& slab(std::int32_t i) { return slabs_[static_cast<std::size_t>(i)]; }
  std::int32_t fullest(const Kind& k) const;
  void link(std::int32_t& list, std::int32_t i);
  void unlink(std::int32_t& list, std::int32_t i);

  const std::uint64_t slab_bytes_;
  const std::shared_ptr<model::Arena> arena_;
  std::vector<Slab> slabs_;
  std::array<Kind, kSlotKinds> kinds_;
  std::int32_t empty_ = kNone;  // a list
  std::int64_t empty_slabs_ = 0;
};

SlabSlots::SlabSlots(model::MemoryLayout layout, std::uint64_t slab_bytes, std::int32_t slabs,
                     std::shared_ptr<model::Arena> arena)
    : SlotMemory(layout, static_cast<std::uint64_t>(slabs) * slab_bytes),
      slab_bytes_(slab_bytes),
      arena_(std::move(arena)),
      slabs_(static_cast<std::size_t>(slabs)) {
  for (const SlotKind kind : {SlotKind::block, SlotKind::state}) {
    Kind& k = kinds_[index_of(kind)];
    k.stride = round_up(bytes_of(kind));
    k.per_slab = static_cast<std::int32_t>(slab_bytes_ / k.stride);
    k.lists.assign(static_cast<std::size_t>(k.per_slab), kNone);
    k.next_free.assign(slabs_.size() * static_cast<std::size_t>(k.per_slab), kNone);
  }
  for (std::int32_t i = slabs - 1; i >= 0; --i) link(empty_, i);
  empty_slabs_ = slabs;
}

bool SlabSlots::could_ever_fit(std::int64_t blocks, std::int64_t states) const {
  if (blocks < 0 || states < 0) return false;
  if (blocks > slots(SlotKind::block) || states > slots(SlotKind::state)) return false;
  return ceil_div(blocks, of(SlotKind::block).per_slab) +
             ceil_div(states, of(SlotKind::state).per_slab) <=
         std::ssize(slabs_);
}

std::uint64_t SlabSlots::lacking_bytes(std::int64_t blocks, std::int64_t states) const {
  std::uint64_t bytes = 0;
  std::int64_t slabs = empty_slabs_;
  for (const auto& [kind, more] : {std::pair{SlotKind::state, states}, {SlotKind::block, blocks}}) {
    const Kind& k = of(kind);
    const std::int64_t beyond = std::max<std::int64_t>(reserved[index_of(kind)] + more - k.free, 0);
    const std::int64_t cut = std::min(slabs, ceil_div(beyond, k.per_slab));
    slabs -= cut;
    const std::int64_t lacking = std::max<std::int64_t>(beyond - cut * k.per_slab, 0);
    bytes += static_cast<std::uint64_t>(lacking) * bytes_of(kind);
  }
  return bytes;
}

// So that the others become empty.
std::int32_t SlabSlots::fullest(const Kind& k) const {
  const auto list = std::find_if(k.lists.rbegin(), k.lists.rend(),
                                 [](std::int32_t first) { return first != kNone; });
  return list == k.lists.rend() ? kNone : *list;
}

std::int32_t SlabSlots::take(SlotKind kind) {
  Kind& k = kinds_[index_of(kind)];
  std::int32_t i = fullest(k);
  if (i == kNone) {
    check(empty_ != kNone, "a pool has no slot although one was promised");
    i = empty_;
    unlink(empty_, i);
    --empty_slabs_;
    slab(i) = {};
    k.free += k.per_slab;
  } else {
    unlink(k.lists[static_cast<std::size_t>(slab(i).used)], i);
  }
  Slab& s = slab(i);
  std::int32_t id = s.free_slot;
  if (id != kNone) {
    s.free_slot = k.next_free[static_cast<std::size_t>(id)];
  } else {
    id = i * k.per_slab + s.fresh++;
  }
  --k.free;
  ++live[index_of(kind)];
  if (++s.used < k.per_slab) link(k.lists[static_cast<std::size_t>(s.used)], i);
  return id;
}

void SlabSlots::put(SlotKind kind, std::int32_t id) {
  Kind& k = kinds_[index_of(kind)];
  const std::int32_t i = id / k.per_slab;
  Slab& s = slab(i);
  if (s.used < k.per_slab) unlink(k.lists[static_cast<std::size_t>(s.used)], i);
  k.next_free[static_cast<std::size_t>(id)] = s.free_slot;
  s.free_slot = id;
  ++k.free;
  --live[index_of(kind)];
  if (--s.used > 0) return link(k.lists[static_cast<std::size_t>(s.used)], i);
  k.free -= k.per_slab;
  link(empty_, i);
  ++empty_slabs_;
}

void SlabSlots::link(std::int32_t& list, std::int32_t i) {
  slab(i).before = kNone;
  slab(i).after = list;
  if (list != kNone) slab(list).before = i;
  list = i;
}

void SlabSlots::unlink(std::int32_t& list, std::int32_t i) {
  const Slab& s = slab(i);
  if (s.before != kNone) slab(s.before).after = s.after;
  if (s.after != kNone) slab(s.after).before = s.before;
  if (list == i) list = s.after;
}

}  // namespace

std::unique_ptr<SlotMemory> make_slab_slots(model::MemoryLayout layout, std::uint64_t budget,
                                            std::shared_ptr<model::Arena> arena) {
  const std::uint64_t block = round_up(layout.kv_block_bytes);
  const std::uint64_t slab = std::max(round_up(layout.state_bytes), block);
  budget = std::min<std::uint64_t>(budget, arena->size());
  require_budget(budget, 2 * slab);
  // Slots are counted by 32-bit ids.
  const std::uint64_t smallest = std::min(round_up(layout.state_bytes), block);
  const std::uint64_t most = std::numeric_limits<std::int32_t>::max() / (slab / smallest);
  const auto slabs = static_cast<std::int32_t>(std::min(budget / slab, most));
  return std::make_unique<SlabSlots>(layout, slab, slabs, std::move(arena));
}

}  // namespace cairn::engine
