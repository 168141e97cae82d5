// SPDX-License-Identifier: Apache-2.0
// The vocabulary and the merges of a byte-level BPE.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// Pieces in the alphabet of byte-level tokenizers: each byte is one printable character.
/// Appends the bytes that `spelled` (UTF-8) stands for; false (and `out` as it was) outside that
/// alphabet.
bool bytes_of_spelling(std::string_view spelled, std::string& out);

/// Bytes of every id, and the id of every piece. Filled once, then read by any thread.
class Vocabulary {
 public:
  explicit Vocabulary(std::size_t ids);
  void set(std::int32_t id, std::string_view bytes);
  /// Makes the bytes of `id` findable; false when another id has the same bytes.
  bool index(std::int32_t id);

  std::int32_t size() const { return static_cast<std::int32_t>(spans_.size()); }
  std::string_view bytes(std::int32_t id) const {
    if (id < 0 || id >= size()) return {};
    const Span span = spans_[static_cast<std::size_t>(id)];
    return {arena_.data() + span.begin, span.length};
  }
  /// -1 when no indexed piece has these bytes.
  std::int32_t find(std::string_view bytes) const;

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };
  std::string arena_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;
};

/// Merges pieces by rank: the lowest rank first, the leftmost of equals. Filled once, then read by
/// any thread.
class Bpe {
 public:
  /// `vocabulary` must outlive this and be complete.
  Bpe(const Vocabulary& vocabulary, const std::array<std::int32_t, 256>& byte_ids,
      std::size_t merges);
  /// A later merge of the same pair wins.
  void add_merge(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t merged);

  struct Scratch {
    std::vector<std::uint64_t> heap;
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> ranks;
    std::vector<std::uint32_t> next;
    std::vector<std::uint32_t> before;
  };
  /// Appends the tokens of one piece. Time O(n log n) in its length.
  void encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  struct Merge {
    std::uint64_t key;  // left << 32 | right
    std::uint32_t rank;
    std::int32_t merged;
  };
  // What is known of an entry of the vocabulary as a whole piece: most words of a text are single
  // tokens, and then neither merging nor a cache is needed. Found out at first use.
  enum Whole : std::uint8_t { kUnknown, kWhole, kNotWhole };

  void encode_whole(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const;
  const Merge* find(std::int32_t left, std::int32_t right) const;
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  void merge_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void merge_long(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const;

  const std::uint64_t serial_;  // whose words a thread's cache holds
  const Vocabulary& vocabulary_;
  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;
  std::vector<std::uint64_t>
      filter_;  // bits; most pairs do not merge, and this says so from a small table
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;  // [vocabulary size]
};

}  // namespace cairn::text
