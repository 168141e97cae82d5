// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/harness/counters.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/simt/harness/harness.hpp"
#include "tests/simt/harness/machine.hpp"

namespace cairn::simt {
namespace {

struct Entry {
  std::uintptr_t address;
  std::int32_t line;
  std::uint16_t thread;
  std::uint8_t bytes;
  Access kind;
  std::uint32_t turn;  // how often its thread had been at that line before
};

// Filled by fibers, so of fixed size: they may not allocate what others free.
constexpr std::size_t kMaxEntries = std::size_t{1} << 21;

struct Log {
  std::unique_ptr<Entry[]> entries{new Entry[kMaxEntries]};
  std::size_t count = 0;
  Counters launch;
  std::unordered_set<std::uintptr_t> read_only;  // 4-byte words
  std::unordered_set<std::uintptr_t> written;
};

std::unique_ptr<Log> open_log;
Counting* counting = nullptr;

bool is_shared(Access kind) { return kind == Access::shared_load || kind == Access::shared_store; }

/// Units of `size` bytes that the entries touch, ascending and distinct, relative to `base`.
std::vector<std::uintptr_t> units(const Entry* begin, const Entry* end, std::uintptr_t base,
                                  std::uintptr_t size) {
  std::vector<std::uintptr_t> found;
  for (const Entry* e = begin; e != end; ++e) {
    const std::uintptr_t first = (e->address - base) / size;
    const std::uintptr_t last = (e->address - base + e->bytes - 1) / size;
    for (std::uintptr_t unit = first; unit <= last; ++unit) found.push_back(unit);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void count_global(GlobalTraffic& traffic, const Entry* begin, const Entry* end) {
  ++traffic.requests;
  traffic.bytes += 2 * static_cast<std::int64_t>(units(begin, end, 0, 2).size());
  traffic.sectors += static_cast<std::int64_t>(units(begin, end, 0, 32).size());
}

/// Lanes go in groups that ask for 128 bytes at most: 32, 16 or 8 of them. A group takes as many
/// wavefronts as the busiest of the 32 banks has different words.
void count_shared(SharedTraffic& traffic, const Entry* begin, const Entry* end) {
  const int lanes_a_group = begin->bytes <= 4 ? 32 : 128 / begin->bytes;
  const auto base = reinterpret_cast<std::uintptr_t>(machine().shared());
  ++traffic.requests;
  while (begin != end) {
    const auto group_of = [&](const Entry& e) { return e.thread % 32 / lanes_a_group; };
    const Entry* next = begin;
    while (next != end && group_of(*next) == group_of(*begin)) ++next;
    std::array<std::int64_t, 32> words_of_bank{};
    for (const std::uintptr_t word : units(begin, next, base, 4)) ++words_of_bank[word % 32];
    const std::int64_t busiest = *std::max_element(words_of_bank.begin(), words_of_bank.end());
    traffic.wavefronts += busiest;
    traffic.conflicts += busiest - 1;
    begin = next;
  }
}

void number_turns(Log& log) {
  std::unordered_map<std::uint64_t, std::uint32_t> turns;
  for (std::size_t i = 0; i < log.count; ++i) {
    Entry& e = log.entries[i];
    const std::uint64_t key = static_cast<std::uint64_t>(e.thread) << 32 |
                              static_cast<std::uint32_t>(e.line) << 3 |
                              static_cast<std::uint32_t>(e.kind);
    e.turn = turns[key]++;
  }
}

void remember_words(Log& log, const Entry& e) {
  if (e.kind != Access::read_only_load && e.kind != Access::global_store) return;
  auto& words = e.kind == Access::global_store ? log.written : log.read_only;
  for (std::uintptr_t w = e.address / 4; w <= (e.address + e.bytes - 1) / 4; ++w) words.insert(w);
}

}  // namespace

void touch(Access kind, const void* address, unsigned bytes, int line) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at % bytes != 0) fault("line %d: an access of %u bytes is misaligned", line, bytes);
  const auto base = reinterpret_cast<std::uintptr_t>(machine().shared());
  const std::size_t size = machine().shared_bytes();
  const bool inside = size > 0 && at >= base && at + bytes <= base + size;
  if (is_shared(kind) && !inside) {
    fault("line %d: %u bytes at offset %td of %zu bytes of shared memory", line, bytes,
          static_cast<std::ptrdiff_t>(at - base), size);
  }
  if (!is_shared(kind) && inside) fault("line %d: shared memory taken for global", line);
  if (counting != nullptr) count_access(kind, address, bytes, line, threadIdx.x);
}

void count_access(Access kind, const void* address, unsigned bytes, int line, unsigned thread) {
  Log& log = *open_log;
  if (log.count == kMaxEntries) fault("a block has more than %zu accesses to count", kMaxEntries);
  log.entries[log.count++] = {
      reinterpret_cast<std::uintptr_t>(address), line, static_cast<std::uint16_t>(thread),
      static_cast<std::uint8_t>(bytes),          kind, 0};
}

void count_block() {
  if (counting == nullptr) return;
  Log& log = *open_log;
  number_turns(log);
  const auto key = [](const Entry& e) { return std::tuple(e.thread / 32, e.line, e.kind, e.turn); };
  Entry* const end = log.entries.get() + log.count;
  std::sort(log.entries.get(), end, [&](const Entry& a, const Entry& b) {
    return std::tuple(key(a), a.thread) < std::tuple(key(b), b.thread);
  });
  for (Entry* begin = log.entries.get(); begin != end;) {
    Entry* next = begin;
    while (next != end && key(*next) == key(*begin)) remember_words(log, *next++);
    if (is_shared(begin->kind)) {
      count_shared(log.launch.shared, begin, next);
    } else if (begin->kind == Access::global_store) {
      count_global(log.launch.stores, begin, next);
    } else {
      count_global(log.launch.loads, begin, next);
    }
    begin = next;
  }
  log.count = 0;
}

void count_launch(const LaunchShape& shape) {
  if (counting == nullptr) return;
  Log& log = *open_log;
  log.launch.launches = 1;
  counting->kernels_[shape.kernel] += log.launch;
  const bool clash = std::any_of(log.written.begin(), log.written.end(),
                                 [&](std::uintptr_t w) { return log.read_only.count(w) > 0; });
  discard_counts();
  if (clash) {
    throw Fault(std::string("kernel ") + shape.kernel + " writes what it loads as read-only");
  }
}

void discard_counts() {
  if (open_log == nullptr) return;
  open_log->count = 0;
  open_log->launch = {};
  open_log->read_only.clear();
  open_log->written.clear();
}

Counters& Counters::operator+=(const Counters& other) {
  launches += other.launches;
  for (auto [mine, theirs] : {std::pair{&loads, &other.loads}, {&stores, &other.stores}}) {
    mine->requests += theirs->requests;
    mine->bytes += theirs->bytes;
    mine->sectors += theirs->sectors;
  }
  shared.requests += other.shared.requests;
  shared.wavefronts += other.shared.wavefronts;
  shared.conflicts += other.shared.conflicts;
  return *this;
}

Counting::Counting() {
  if (counting != nullptr) throw std::logic_error("one Counting at a time");
  open_log = std::make_unique<Log>();
  counting = this;
}

Counting::~Counting() {
  counting = nullptr;
  open_log.reset();
}

Counters Counting::of(const std::string& kernel) const {
  const auto found = kernels_.find(kernel);
  return found == kernels_.end() ? Counters{} : found->second;
}

Counters Counting::total() const {
  Counters sum;
  for (const auto& [name, counters] : kernels_) sum += counters;
  return sum;
}

}  // namespace cairn::simt
