// SPDX-License-Identifier: Apache-2.0
// NFC, with the character data of the tool that made the model's training text.
#include <utf8proc.h>

#include <algorithm>

#include "base/check.hpp"
#include "model/text/unicode.hpp"

namespace cairn::text {
namespace {

// Marks that Unicode gained a combining class or composition for after version 9.0. The
// `tokenizers` package, by which the model's text was normalised, has the tables of 9.0 and leaves
// them where they stand; so must we, or the model would see other tokens.
// scripts/compare_tokenizer.py checks it.
struct PointRange {
  std::uint32_t first;
  std::uint32_t last;
};
constexpr PointRange kNewerThan9[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
    {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}};

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
  std::vector<bool> newer(kNfcTableSize);
  for (const PointRange& range : kNewerThan9) {
    for (std::uint32_t cp = range.first; cp <= range.last; ++cp) {
      newer[cp] = true;
      table[cp] = 0;
    }
  }
  for (std::uint32_t cp = 0; cp < kNfcTableSize; ++cp) {
    if (newer[cp]) continue;
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

int combining_class(std::uint32_t cp) {
  if (!(nfc_class(cp) & kNotStarter)) return 0;
  return utf8proc_get_property(static_cast<std::int32_t>(cp))->combining_class;
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
      const int now = combining_class(c.value);
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
  const auto ccc = [](std::int32_t cp) { return combining_class(static_cast<std::uint32_t>(cp)); };
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

bool needs_nfc(std::string_view text) { return next_change(text, 0).begin < text.size(); }

std::string to_nfc(std::string_view text, OffsetMap* map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Part part = next_change(text, i);
    out.append(text, i, part.begin - i);
    if (part.begin < part.end) {
      const std::size_t begin = out.size();
      const std::string_view before = text.substr(part.begin, part.end - part.begin);
      append_nfc(before, out);
      if (map && std::string_view(out).substr(begin) != before) {
        map->rewritten(begin, part.begin);
        map->copied(out.size(), part.end);
      }
    }
    i = part.end;
  }
  return out;
}

}  // namespace cairn::text
