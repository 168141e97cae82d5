// SPDX-License-Identifier: Apache-2.0
#include "model/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

namespace cairn::text {
namespace {

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

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> table = make_class_table();
  return table.data();
}

}  // namespace cairn::text
