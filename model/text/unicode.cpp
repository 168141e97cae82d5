// SPDX-License-Identifier: Apache-2.0
#include "model/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace cairn::text {
namespace {

// What NFC may do to a code point. Zero: it starts anew, is kept, and never joins what stands
// before it.
enum NfcClass : std::uint8_t {
  kNotStarter = 1,  // its place among its neighbours depends on its combining class
  kMayChange = 2    // it decomposes, or may join what stands before it
};
constexpr std::uint32_t kFirstUnstable = 0x300;   // every code point below has NfcClass 0
constexpr std::uint32_t kNfcTableSize = 0x30000;  // and so has every one from here on

// The class of every code point is found by decomposing all of them once (about 10 ms): the last
// part of a character that has a canonical decomposition is what may join a character before it.
std::vector<std::uint8_t> make_nfc_table() {
  std::vector<std::uint8_t> table(kNfcTableSize);
  for (std::uint32_t cp = kFirstUnstable; cp < kNfcTableSize; ++cp) {
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<std::int32_t>(cp));
    if (property->combining_class != 0) table[cp] |= kNotStarter;
  }
  for (std::uint32_t cp = 0; cp < kNfcTableSize; ++cp) {
    const auto c = static_cast<std::int32_t>(cp);
    const bool hangul = cp >= 0xAC00 && cp <= 0xD7A3;
    if (!hangul && utf8proc_get_property(c)->decomp_seqindex == UINT16_MAX) continue;
    std::int32_t parts[32];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(c, parts, 32, UTF8PROC_DECOMPOSE, &boundary);
    if (n < 1 || n > 32 || (n == 1 && parts[0] == c)) continue;  // a compatibility mapping only
    const std::int32_t last = parts[n - 1];
    constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const auto m = utf8proc_normalize_utf32(parts, n, kCompose);
    if (m == 1 && parts[0] == c) {
      table[static_cast<std::size_t>(last)] |= kMayChange;
    } else {
      table[cp] |= kMayChange;
    }
  }
  return table;
}

std::uint8_t nfc_class(std::uint32_t cp) {
  static const std::vector<std::uint8_t> table = make_nfc_table();
  return cp < kNfcTableSize ? table[cp] : 0;
}

// Letters, marks and numbers that Unicode 15.1 and 16.0 added; used where utf8proc is older than
// they are.
struct ClassRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint8_t bits;
};
constexpr ClassRange kNewer[] = {
    {0x897, 0x897, kMark},       {0x1c89, 0x1c8a, kLetter},   {0xa7cb, 0xa7cd, kLetter},
    {0xa7da, 0xa7dc, kLetter},   {0x105c0, 0x105f3, kLetter}, {0x10d40, 0x10d49, kNumber},
    {0x10d4a, 0x10d65, kLetter}, {0x10d69, 0x10d6d, kMark},   {0x10d6f, 0x10d85, kLetter},
    {0x10ec2, 0x10ec4, kLetter}, {0x10efc, 0x10efc, kMark},   {0x11380, 0x11389, kLetter},
    {0x1138b, 0x1138b, kLetter}, {0x1138e, 0x1138e, kLetter}, {0x11390, 0x113b5, kLetter},
    {0x113b7, 0x113b7, kLetter}, {0x113b8, 0x113c0, kMark},   {0x113c2, 0x113c2, kMark},
    {0x113c5, 0x113c5, kMark},   {0x113c7, 0x113ca, kMark},   {0x113cc, 0x113d0, kMark},
    {0x113d1, 0x113d1, kLetter}, {0x113d2, 0x113d2, kMark},   {0x113d3, 0x113d3, kLetter},
    {0x113e1, 0x113e2, kMark},   {0x116d0, 0x116e3, kNumber}, {0x11bc0, 0x11be0, kLetter},
    {0x11bf0, 0x11bf9, kNumber}, {0x11f5a, 0x11f5a, kMark},   {0x13460, 0x143fa, kLetter},
    {0x16100, 0x1611d, kLetter}, {0x1611e, 0x1612f, kMark},   {0x16130, 0x16139, kNumber},
    {0x16d40, 0x16d6c, kLetter}, {0x16d70, 0x16d79, kNumber}, {0x18cff, 0x18cff, kLetter},
    {0x1ccf0, 0x1ccf9, kNumber}, {0x1e5d0, 0x1e5ed, kLetter}, {0x1e5ee, 0x1e5ef, kMark},
    {0x1e5f0, 0x1e5f0, kLetter}, {0x1e5f1, 0x1e5fa, kNumber}, {0x2ebf0, 0x2ee5d, kLetter}};

std::uint8_t class_of(std::int32_t cp) {
  if (cp == '\r' || cp == '\n') return kSpace | kNewline;
  if ((cp >= 9 && cp <= 13) || cp == 0x85) return kSpace;
  switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    default:
      return 0;
  }
}

std::vector<std::uint8_t> make_class_table() {
  std::vector<std::uint8_t> table(kClassTableSize);
  for (std::uint32_t cp = 0; cp < kClassTableSize; ++cp) {
    table[cp] = class_of(static_cast<std::int32_t>(cp));
  }
  for (const ClassRange& range : kNewer) {
    for (std::uint32_t cp = range.first; cp <= range.last; ++cp) {
      if (utf8proc_category(static_cast<std::int32_t>(cp)) == UTF8PROC_CATEGORY_CN) {
        table[cp] = range.bits;
      }
    }
  }
  return table;
}

// A part between two code points of NfcClass 0: already in NFC when nothing in it may change and
// combining classes do not fall.
bool part_is_nfc(std::string_view part) {
  int before = 0;
  for (std::size_t i = 0; i < part.size();) {
    const CodePoint c = code_point(part.data() + i);
    if (c.value >= kFirstUnstable) {
      const std::uint8_t bits = nfc_class(c.value);
      if (bits & kMayChange) return false;
      const int now = utf8proc_get_property(static_cast<std::int32_t>(c.value))->combining_class;
      if (now != 0 && now < before) return false;
      before = now;
    } else {
      before = 0;
    }
    i += c.length;
  }
  return true;
}

// utf8proc's own reordering of marks is quadratic, so this decomposes and sorts before it composes.
void append_nfc(std::string_view part, std::string& out) {
  std::vector<std::int32_t> points;
  for (std::size_t i = 0; i < part.size();) {
    const CodePoint c = code_point(part.data() + i);
    std::int32_t parts[32];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<std::int32_t>(c.value), parts, 32,
                                           UTF8PROC_DECOMPOSE, &boundary);
    check(n >= 1 && n <= 32, "a character decomposes into 1 to 32 parts");
    points.insert(points.end(), parts, parts + n);
    i += c.length;
  }
  const auto ccc = [](std::int32_t cp) { return utf8proc_get_property(cp)->combining_class; };
  for (auto first = points.begin(); first != points.end();) {
    if (ccc(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(first, points.end(), [&](auto cp) { return ccc(cp) == 0; });
    std::stable_sort(first, last, [&](auto a, auto b) { return ccc(a) < ccc(b); });
    first = last;
  }
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto n = utf8proc_normalize_utf32(points.data(),
                                          static_cast<utf8proc_ssize_t>(points.size()), kCompose);
  check(n >= 0, "composing characters cannot fail");
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    unsigned char bytes[4];
    const auto length = utf8proc_encode_char(points[static_cast<std::size_t>(i)], bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  }
}

struct Part {
  std::size_t begin;
  std::size_t end;
};

// The next part from `from` on that NFC changes; {size, size} when there is none. Both ends are at
// code points of NfcClass 0 (or at the ends of the text), across which nothing joins.
Part next_change(std::string_view text, std::size_t from) {
  std::size_t stable = from;  // the last code point of class 0 before i
  for (std::size_t i = from; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0xCC) {  // below U+0300
      stable = i;
      i += static_cast<unsigned char>(text[i]) < 0x80 ? 1 : 2;
      continue;
    }
    CodePoint c = code_point(text.data() + i);
    if (nfc_class(c.value) == 0) {
      stable = i;
      i += c.length;
      continue;
    }
    std::size_t end = i + c.length;
    while (end < text.size()) {
      c = code_point(text.data() + end);
      if (c.value < kFirstUnstable || nfc_class(c.value) == 0) break;
      end += c.length;
    }
    if (!part_is_nfc(text.substr(stable, end - stable))) return {stable, end};
    stable = end;
    i = end;
  }
  return {text.size(), text.size()};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8State::valid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8State::invalid, 1};
  const std::uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range shuts out overlong forms, surrogates and what lies above U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::uint8_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {Utf8State::incomplete, i};
    if (byte(i) < low || byte(i) > high) return {Utf8State::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8State::valid, length};
}

bool is_ascii(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080U) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
  }
  return true;
}

OffsetMap::Place OffsetMap::find(std::size_t at) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), at,
                                      [](std::size_t a, const Run& run) { return a < run.to; });
  if (after == runs_.begin()) return {at, true};
  const Run& run = *(after - 1);
  if (run.copied) return {run.from + (at - run.to), true};
  return {run.from, at == run.to};
}

std::string repair_utf8(std::string_view text, OffsetMap* map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text.substr(i));
    if (step.state == Utf8State::valid) {
      out.append(text, i, step.length);
    } else {
      if (map) map->rewritten(out.size(), i);
      out += kReplacement;
      if (map) map->copied(out.size(), i + step.length);
    }
    i += step.length;
  }
  return out;
}

bool needs_nfc(std::string_view text) { return next_change(text, 0).begin < text.size(); }

std::string to_nfc(std::string_view text, OffsetMap* map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Part part = next_change(text, i);
    out.append(text, i, part.begin - i);
    if (part.begin < part.end) {
      if (map) map->rewritten(out.size(), part.begin);
      append_nfc(text.substr(part.begin, part.end - part.begin), out);
      if (map) map->copied(out.size(), part.end);
    }
    i = part.end;
  }
  return out;
}

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> table = make_class_table();
  return table.data();
}

}  // namespace cairn::text
