// SPDX-License-Identifier: Apache-2.0
#include "model/text/bpe.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <span>

#include "model/text/unicode.hpp"

namespace cairn::text {
namespace {

constexpr std::uint32_t kNoRank = UINT32_MAX;
constexpr std::uint64_t kEmptyKey = UINT64_MAX;
constexpr std::size_t kShortPiece = 48;      // bytes; up to here scanning beats a heap
constexpr std::size_t kMaxWholePiece = 256;  // bytes; longer pieces are not looked up as a whole
constexpr std::size_t kMaxPiece = 1U << 28;  // bytes; what is longer is cut, positions have 32 bits
constexpr std::size_t kFilterMask = (1U << 16) - 1;  // 512 KiB
constexpr std::uint32_t kNone = UINT32_MAX;          // no neighbour in the linked list

std::uint64_t load(const char* p, std::size_t n) {
  std::uint64_t word = 0;
  std::memcpy(&word, p, n);
  return word;
}

// Fixed-size loads that may overlap compile to single instructions; a copy of n bytes is a call.
std::uint64_t load_short(const char* p, std::size_t n) {  // n from 0 to 8, injective for each n
  if (n == 8) return load(p, 8);
  if (n >= 4) return load(p, 4) | load(p + n - 4, 4) << 32;
  if (n > 0) return load(p, 1) | load(p + n / 2, 1) << 8 | load(p + n - 1, 1) << 16;
  return 0;
}

std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kMul = 0x9E3779B97F4A7C15U;
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  std::uint64_t h = n * kMul;
  for (; n > 8; n -= 8, p += 8) {
    h = (h ^ load(p, 8)) * kMul;
    h ^= h >> 29;
  }
  h ^= load_short(p, n);
  h *= kMul;
  h ^= h >> 32;
  return h * kMul;
}

std::uint64_t hash_pair(std::uint64_t key) {
  key = (key ^ key >> 29) * 0x9E3779B97F4A7C15U;
  key = (key ^ key >> 32) * 0xD6E8FEB86659FD93U;
  return key ^ key >> 32;
}

// The tokens of the words last seen, one cache per thread: texts repeat few words, and these few
// fit in a processor's own cache, which the vocabulary and the merges do not.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 16;
  static constexpr std::size_t kMaxIds = 9;

  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint32_t length = 0;
    bool operator==(const Key&) const = default;
  };
  static Key key(std::string_view piece) {
    const char* p = piece.data();
    const std::size_t n = piece.size();
    if (n <= 8) return {load_short(p, n), 0, static_cast<std::uint32_t>(n)};
    return {load(p, 8), load(p + n - 8, 8), static_cast<std::uint32_t>(n)};
  }

  struct Entry {
    Key key;  // length 0: empty
    std::uint32_t count = 0;
    std::array<std::int32_t, kMaxIds> ids;

    void store(const Key& k, std::span<const std::int32_t> tokens) {
      if (tokens.size() > kMaxIds) return;
      key = k;
      count = static_cast<std::uint32_t>(tokens.size());
      std::copy(tokens.begin(), tokens.end(), ids.begin());
    }
  };

  // The place of `key` in the cache for the tokenizer `serial`; a change of tokenizer empties it.
  Entry& at(std::uint64_t serial, const Key& key) {
    if (serial != serial_) {
      entries_.assign(kEntries, Entry{});
      serial_ = serial;
    }
    const std::uint64_t hash = hash_pair(key.low ^ key.high * 31 ^ std::uint64_t{key.length} << 56);
    return entries_[hash % kEntries];
  }

 private:
  static constexpr std::size_t kEntries = 4096;  // 64 bytes each
  std::vector<Entry> entries_;
  std::uint64_t serial_ = 0;
};

WordCache& words() {
  thread_local WordCache cache;
  return cache;
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serial = 0;
  return ++serial;
}

// The code point that stands for a byte: itself where printable, else the next free one from U+0100
// on.
std::array<std::uint16_t, 256> byte_alphabet() {
  std::array<std::uint16_t, 256> alphabet{};
  std::uint16_t spare = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
    alphabet[b] = printable ? static_cast<std::uint16_t>(b) : spare++;
  }
  return alphabet;
}

std::array<std::int16_t, 0x180> bytes_by_letter() {
  std::array<std::int16_t, 0x180> bytes{};
  bytes.fill(-1);
  const auto alphabet = byte_alphabet();
  for (std::size_t b = 0; b < 256; ++b) bytes[alphabet[b]] = static_cast<std::int16_t>(b);
  return bytes;
}

}  // namespace

bool bytes_of_spelling(std::string_view spelled, std::string& out) {
  static const auto bytes = bytes_by_letter();
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < spelled.size();) {
    const CodePoint c = code_point(spelled.data() + i);
    if (c.value >= bytes.size() || bytes[c.value] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(bytes[c.value]);
    i += c.length;
  }
  return true;
}

Vocabulary::Vocabulary(std::size_t ids)
    : spans_(ids), slots_(std::bit_ceil(std::max<std::size_t>(ids * 2, 16))) {}

void Vocabulary::set(std::int32_t id, std::string_view bytes) {
  spans_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(arena_.size()),
                                          static_cast<std::uint32_t>(bytes.size())};
  arena_ += bytes;
}

bool Vocabulary::index(std::int32_t id) {
  const std::string_view text = bytes(id);
  const std::uint64_t hash = hash_bytes(text);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.id < 0) {
      slot = {static_cast<std::uint32_t>(hash >> 32), id};
      return true;
    }
    if (bytes(slot.id) == text) return slot.id == id;
  }
}

std::int32_t Vocabulary::find(std::string_view text) const {
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot slot = slots_[at];
    if (slot.id < 0) return -1;
    if (slot.hash == tag && bytes(slot.id) == text) return slot.id;
  }
}

Bpe::Bpe(const Vocabulary& vocabulary, const std::array<std::int32_t, 256>& byte_ids,
         std::size_t merges)
    : serial_(next_serial()),
      vocabulary_(vocabulary),
      byte_ids_(byte_ids),
      merges_(std::bit_ceil(std::max<std::size_t>(merges * 2, 16)), Merge{kEmptyKey, kNoRank, -1}),
      filter_(kFilterMask + 1),
      whole_(std::make_unique<std::atomic<std::uint8_t>[]>(
          static_cast<std::size_t>(vocabulary.size()))) {}

void Bpe::add_merge(std::int32_t left, std::int32_t right, std::uint32_t rank,
                    std::int32_t merged) {
  const std::uint64_t key =
      static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  const std::size_t mask = merges_.size() - 1;
  const std::uint64_t hash = hash_pair(key);
  filter_[hash >> 32 & kFilterMask] |= std::uint64_t{1} << (hash >> 58);
  std::size_t at = hash & mask;
  while (merges_[at].key != kEmptyKey && merges_[at].key != key) at = (at + 1) & mask;
  merges_[at] = {key, rank, merged};
}

const Bpe::Merge* Bpe::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key =
      static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  const std::uint64_t hash = hash_pair(key);
  if (!(filter_[hash >> 32 & kFilterMask] >> (hash >> 58) & 1)) return nullptr;
  const std::size_t mask = merges_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Merge& merge = merges_[at];
    if (merge.key == key) return &merge;
    if (merge.key == kEmptyKey) return nullptr;
  }
}

std::uint32_t Bpe::rank(std::int32_t left, std::int32_t right) const {
  const Merge* merge = find(left, right);
  return merge ? merge->rank : kNoRank;
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const {
  for (; piece.size() > kMaxPiece; piece.remove_prefix(kMaxPiece)) {
    merge_long(piece.substr(0, kMaxPiece), scratch, out);
  }
  if (piece.size() > kMaxWholePiece) return merge_long(piece, scratch, out);
  if (piece.empty()) return;
  if (piece.size() == 1) {
    out.push_back(byte_ids_[static_cast<unsigned char>(piece[0])]);
    return;
  }
  if (piece.size() > WordCache::kMaxBytes) return encode_whole(piece, scratch, out);
  const WordCache::Key key = WordCache::key(piece);
  WordCache::Entry& entry = words().at(serial_, key);
  if (entry.key == key) {
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return;
  }
  const std::size_t before = out.size();
  encode_whole(piece, scratch, out);
  entry.store(key, std::span(out).subspan(before));
}

void Bpe::encode_whole(std::string_view piece, Scratch& scratch,
                       std::vector<std::int32_t>& out) const {
  const std::int32_t id = vocabulary_.find(piece);
  std::atomic<std::uint8_t>* whole = id < 0 ? nullptr : &whole_[static_cast<std::size_t>(id)];
  if (whole && whole->load(std::memory_order_relaxed) == kWhole) {
    out.push_back(id);
    return;
  }
  const std::size_t before = out.size();
  if (piece.size() <= kShortPiece) {
    merge_short(piece, out);
  } else {
    merge_long(piece, scratch, out);
  }
  // An entry that no merges lead to stays several tokens. Threads that race here store the same
  // value.
  if (whole) {
    const bool is_whole = out.size() == before + 1 && out[before] == id;
    whole->store(is_whole ? kWhole : kNotWhole, std::memory_order_relaxed);
  }
}

void Bpe::merge_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::array<std::int32_t, kShortPiece> ids;
  std::array<const Merge*, kShortPiece> pairs;  // the merge of ids[i] and ids[i + 1]
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = find(ids[i], ids[i + 1]);
  for (;;) {
    std::size_t best = n;
    std::uint32_t best_rank = kNoRank;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      if (pairs[i] && pairs[i]->rank < best_rank) {
        best_rank = pairs[i]->rank;
        best = i;
      }
    }
    if (best == n) break;
    ids[best] = pairs[best]->merged;
    std::copy(ids.begin() + best + 2, ids.begin() + n, ids.begin() + best + 1);
    if (best + 2 < n) {
      std::copy(pairs.begin() + best + 2, pairs.begin() + (n - 1), pairs.begin() + best + 1);
    }
    --n;
    if (best + 1 < n) pairs[best] = find(ids[best], ids[best + 1]);
    if (best > 0) pairs[best - 1] = find(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + n);
}

void Bpe::merge_long(std::string_view piece, Scratch& s, std::vector<std::int32_t>& out) const {
  const std::size_t n = piece.size();
  s.ids.resize(n);
  s.ranks.assign(n, kNoRank);  // rank of the pair that starts here, as of now
  s.next.resize(n);
  s.before.resize(n);
  s.heap.clear();
  const auto entry = [](std::uint32_t rank, std::uint32_t at) {
    return static_cast<std::uint64_t>(rank) << 32 | at;
  };
  for (std::size_t i = 0; i < n; ++i) {
    s.ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
    s.before[i] = i == 0 ? kNone : static_cast<std::uint32_t>(i - 1);
    s.next[i] = i + 1 == n ? kNone : static_cast<std::uint32_t>(i + 1);
  }
  for (std::size_t i = 0; i + 1 < n; ++i) {
    s.ranks[i] = rank(s.ids[i], s.ids[i + 1]);
    if (s.ranks[i] != kNoRank) s.heap.push_back(entry(s.ranks[i], static_cast<std::uint32_t>(i)));
  }
  std::make_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  const auto renew = [&](std::uint32_t at) {
    const std::uint32_t next = s.next[at];
    s.ranks[at] = next == kNone ? kNoRank : rank(s.ids[at], s.ids[next]);
    if (s.ranks[at] == kNoRank) return;
    s.heap.push_back(entry(s.ranks[at], at));
    std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  };
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    const auto at = static_cast<std::uint32_t>(s.heap.back());
    const auto rank_then = static_cast<std::uint32_t>(s.heap.back() >> 32);
    s.heap.pop_back();
    if (s.ranks[at] != rank_then) continue;  // one of the two has been merged since
    const std::uint32_t gone = s.next[at];
    s.ids[at] = find(s.ids[at], s.ids[gone])->merged;
    s.ranks[gone] = kNoRank;
    s.next[at] = s.next[gone];
    if (s.next[at] != kNone) s.before[s.next[at]] = at;
    renew(at);
    if (s.before[at] != kNone) renew(s.before[at]);
  }
  for (std::uint32_t at = 0; at != kNone; at = s.next[at]) out.push_back(s.ids[at]);
}

}  // namespace cairn::text
