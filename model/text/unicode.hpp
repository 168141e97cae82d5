// SPDX-License-Identifier: Apache-2.0
// UTF-8, NFC and character classes as the tokenizer needs them, with a map back to the bytes that
// came in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State : std::uint8_t { valid, invalid, incomplete };

/// The bytes at the start of a text: one character, the maximal part of one that cannot be
/// continued (replaced by one U+FFFD), or the part of one that more bytes may complete.
struct Utf8Step {
  Utf8State state;
  std::uint8_t length;  // at least 1
};
/// `text` must not be empty.
Utf8Step utf8_step(std::string_view text);

/// Code point and length of the character at `p`, which must be well-formed UTF-8.
struct CodePoint {
  std::uint32_t value;
  std::uint32_t length;
};
inline CodePoint code_point(const char* p) {
  const auto byte = [p](int i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(p[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

bool is_ascii(std::string_view text);

/// Byte positions of a rewritten text in the text it was made from. Monotone; an empty map is the
/// identity.
class OffsetMap {
 public:
  struct Place {
    std::size_t at;  // for a byte inside a rewritten part: where that part starts
    bool exact;      // false inside a rewritten part
  };
  /// From `to` on, bytes are copies of the bytes from `from` on. Calls must ascend.
  void copied(std::size_t to, std::size_t from) { runs_.push_back({to, from, true}); }
  /// From `to` on, bytes stand together for what begins at `from`.
  void rewritten(std::size_t to, std::size_t from) { runs_.push_back({to, from, false}); }
  Place find(std::size_t at) const;
  void clear() { runs_.clear(); }

 private:
  struct Run {
    std::size_t to;
    std::size_t from;
    bool copied;
  };
  std::vector<Run> runs_;
};

/// `text` with U+FFFD for what is not UTF-8, one for each maximal part, as Python decodes with
/// "replace".
std::string repair_utf8(std::string_view text, OffsetMap* map);

/// False when `text` (UTF-8) is certainly in NFC already; never false for a text that NFC changes.
bool needs_nfc(std::string_view text);
/// `text` (UTF-8) in NFC. Time O(n log n) for any input.
std::string to_nfc(std::string_view text, OffsetMap* map);

/// Character classes of the splitting regex, as bits.
enum CharClass : std::uint8_t {
  kLetter = 1,   // \p{L}
  kMark = 2,     // \p{M}
  kNumber = 4,   // \p{N}
  kSpace = 8,    // \s, the property White_Space
  kNewline = 16  // \r or \n; has kSpace too
};
/// Class of each code point below `kClassTableSize`; 0 above it. Built at the first call.
inline constexpr std::uint32_t kClassTableSize = 0x110000;
const std::uint8_t* char_classes();

}  // namespace cairn::text
