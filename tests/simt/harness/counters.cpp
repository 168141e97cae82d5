// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/harness/counters.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
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

/// Who has loaded and stored a word in this launch.
struct Touched {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::uint64_t kSeveral = kNone - 1;
  std::uint64_t reader = kNone;  // a block
  std::uint64_t writer = kNone;
  bool read_only = false;

  static void add(std::uint64_t& who, std::uint64_t block) {
    who = who == kNone || who == block ? block : kSeveral;
  }
  bool between_blocks() const {
    return writer == kSeveral || (writer != kNone && reader != kNone && reader != writer);
  }
};

struct Log {
  std::unique_ptr<Entry[]> entries{new Entry[kMaxEntries]};
  std::size_t count = 0;
  Counters launch;
  std::unordered_map<std::uintptr_t, Touched> words;  // of 2 bytes of global memory
  std::uint64_t block = 0;
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
  if (is_shared(e.kind)) return;
  for (std::uintptr_t w = e.address / 2; w <= (e.address + e.bytes - 1) / 2; ++w) {
    Touched& word = log.words[w];
    Touched::add(e.kind == Access::global_store ? word.writer : word.reader, log.block);
    word.read_only = word.read_only || e.kind == Access::read_only_load;
  }
}

/// Throws for what the words of a launch show.
void check_words(const Log& log, const char* kernel, bool blocks_may_meet) {
  for (const auto& [address, word] : log.words) {
    if (word.read_only && word.writer != Touched::kNone) {
      throw Fault(std::string("kernel ") + kernel + " writes what it loads as read-only");
    }
    if (!blocks_may_meet && word.between_blocks()) {
      throw Fault(std::string("kernel ") + kernel + ": blocks race for a word of global memory");
    }
  }
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
  ++log.block;
}

void count_launch(const LaunchShape& shape) {
  if (counting == nullptr) return;
  Log& log = *open_log;
  log.launch.launches = 1;
  counting->kernels_[shape.kernel] += log.launch;
  try {
    check_words(log, shape.kernel, counting->blocks_ == Blocks::may_meet);
  } catch (const Fault&) {
    discard_counts();
    throw;
  }
  discard_counts();
}

void discard_counts() {
  if (open_log == nullptr) return;
  open_log->count = 0;
  open_log->launch = {};
  open_log->words.clear();
  open_log->block = 0;
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

Counting::Counting(Blocks blocks) : blocks_(blocks) {
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
