// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "tests/simt/harness/harness.hpp"
#include "tests/simt/harness/lock.hpp"
#include "tests/simt/harness/machine.hpp"

namespace cairn::simt {
namespace {

constexpr std::size_t kAlignment = 256;
#if defined(CAIRN_SIMT_ASAN)
constexpr std::size_t kGuard = 0;
#else
constexpr std::size_t kGuard = kAlignment;
#endif
constexpr std::uint64_t kGuardByte = 0xa5;

struct Allocation {
  std::size_t bytes;
  Place place;
};

std::map<const std::byte*, Allocation>& allocations() {
  static std::map<const std::byte*, Allocation> all;
  return all;
}

/// By words and without memcmp: there are many of them after every launch, and ThreadSanitizer
/// would take it for an access of the launch.
bool untouched(const std::byte* guard) {
  std::uint64_t differs = 0;
  for (std::size_t i = 0; i < kGuard; i += sizeof differs) {
    std::uint64_t word;
    std::memcpy(&word, guard + i, sizeof word);
    differs |= word ^ kGuardByte * 0x0101010101010101U;
  }
  return differs == 0;
}

}  // namespace

std::byte* allocate(std::size_t bytes, Place place) {
  const Lock lock;
  void* all = nullptr;
  if (posix_memalign(&all, kAlignment, bytes + 2 * kGuard) != 0) throw std::bad_alloc();
  std::byte* memory = static_cast<std::byte*>(all) + kGuard;
  std::memset(memory - kGuard, static_cast<int>(kGuardByte), kGuard);
  std::memset(memory, 0xff, bytes);
  std::memset(memory + bytes, static_cast<int>(kGuardByte), kGuard);
  allocations()[memory] = {bytes, place};
  return memory;
}

void release(std::byte* memory) noexcept {
  const Lock lock;
  allocations().erase(memory);
  std::free(memory - kGuard);  // NOLINT: from posix_memalign
}

bool allocated(const std::byte* begin, std::size_t bytes, Place place) {
  const Lock lock;
  auto after = allocations().upper_bound(begin);
  if (after == allocations().begin()) return false;
  const auto& [memory, allocation] = *--after;
  const auto offset = static_cast<std::size_t>(begin - memory);
  return allocation.place == place && offset <= allocation.bytes &&
         bytes <= allocation.bytes - offset;
}

void check_guards(const char* what) {
  for (const auto& [memory, allocation] : allocations()) {
    if (!untouched(memory - kGuard) || !untouched(memory + allocation.bytes)) {
      throw Fault(std::string(what) + " wrote outside a buffer");
    }
  }
}

}  // namespace cairn::simt
