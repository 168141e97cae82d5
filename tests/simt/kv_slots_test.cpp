// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/kv_slots.hpp"

#include "base/check.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

struct SlotPool {
  std::int32_t layers, kv_heads, slot_bytes;
  std::int64_t heads() const { return std::int64_t{2} * layers * kv_heads; }
  std::int64_t block_bytes() const { return heads() * 16 * slot_bytes + 32; }

  CopyKvSlotsArgs args(Buffer<std::uint8_t>& pool, const Buffer<KvSlotCopy>& copies) const {
    CopyKvSlotsArgs a;
    a.pool = reinterpret_cast<std::byte*>(pool.data());
    a.block_bytes = block_bytes();
    a.layers = layers;
    a.kv_heads = kv_heads;
    a.slot_bytes = slot_bytes;
    a.copies = copies.data();
    a.copy_count = static_cast<std::int64_t>(copies.size());
    return a;
  }
};

std::vector<std::uint8_t> random_bytes(std::int64_t n) {
  Random random(80);
  std::vector<std::uint8_t> bytes(at(n));
  for (std::uint8_t& x : bytes) x = static_cast<std::uint8_t>(random.below(256));
  return bytes;
}

}  // namespace

TEST_CASE("copy_kv_slots copies the first slots of every head and nothing else") {
  for (const SlotPool& p : {SlotPool{6, 2, 512}, SlotPool{1, 2, 64}, SlotPool{3, 1, 16}}) {
    const std::vector<KvSlotCopy> copies{{4, 0, 1}, {4, 1, 15}, {5, 2, 16}, {3, 6, 0}, {3, 7, 7}};
    std::vector<std::uint8_t> want = random_bytes(8 * p.block_bytes());
    Buffer<std::uint8_t> pool(want);
    copy_kv_slots(nullptr, p.args(pool, Buffer<KvSlotCopy>(copies)));
    for (const KvSlotCopy& c : copies) {
      for (std::int64_t head = 0; head < p.heads(); ++head) {
        for (std::int64_t i = 0; i < c.tokens * p.slot_bytes; ++i) {
          const std::int64_t byte = head * 16 * p.slot_bytes + i;
          want[at(c.to * p.block_bytes() + byte)] = want[at(c.from * p.block_bytes() + byte)];
        }
      }
    }
    REQUIRE((pool.read() == want));  // as one value: a failure need not print it
  }
}

TEST_CASE("copy_kv_slots moves each byte once, in whole sectors") {
  const SlotPool p{6, 2, 512};
  Buffer<std::uint8_t> pool(random_bytes(2 * p.block_bytes()));
  Counting counting;
  copy_kv_slots(nullptr, p.args(pool, Buffer<KvSlotCopy>({{0, 1, 5}})));
  require_efficient(counting.of("copy_kv_slots"), 2 * p.heads() * 5 * 512);
}

TEST_CASE("copy_kv_slots starts a warp a head, and refuses sizes that are no whole units") {
  const SlotPool p{6, 2, 512};
  Buffer<std::uint8_t> pool(at(16));
  CopyKvSlotsArgs args = p.args(pool, Buffer<KvSlotCopy>(std::vector<KvSlotCopy>{}));
  args.copy_count = 3;
  REQUIRE(copy_kv_slots_grid(args) == Grid{3, 6});
  args.layers = 1;
  args.kv_heads = 1;
  REQUIRE(copy_kv_slots_grid(args) == Grid{3, 1});
  args.copy_count = 0;
  copy_kv_slots(nullptr, args);
  const auto refuses = [&args](auto change) {
    CopyKvSlotsArgs changed = args;
    change(changed);
    REQUIRE_THROWS_AS(copy_kv_slots(nullptr, changed), InvariantError);
  };
  refuses([](auto& a) { a.slot_bytes = 24; });
  refuses([](auto& a) { a.block_bytes += 8; });
  refuses([](auto& a) { a.layers = 7, a.kv_heads = 2; });
}

}  // namespace cairn::kernels::cuda::testing
