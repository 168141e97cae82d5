// SPDX-License-Identifier: Apache-2.0
#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "model/text/jinja_ops.hpp"

namespace cairn::text::jinja {
namespace {

bool is_cased(std::uint32_t cp) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(cp));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

enum class Case { upper, lower, title };

std::string mapped(std::uint32_t cp, Case to) {
  constexpr std::uint32_t kSharpS = 0xDF;  // the one common letter whose upper case is two letters
  if (cp == kSharpS && to != Case::lower) return to == Case::upper ? "SS" : "Ss";
  const auto c = static_cast<utf8proc_int32_t>(cp);
  const auto result = to == Case::upper   ? utf8proc_toupper(c)
                      : to == Case::lower ? utf8proc_tolower(c)
                                          : utf8proc_totitle(c);
  std::string out;
  append_code_point(out, static_cast<std::uint32_t>(result));
  return out;
}

bool splits_words(std::uint32_t cp) {
  return is_space(cp) || cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<';
}

// One conversion of a printf format: %[flags][width][.precision]type.
struct Conversion {
  bool left = false;
  bool zeros = false;
  bool plus = false;
  std::size_t width = 0;
  int precision = -1;
  char type = 's';
};

std::size_t number_at(std::string_view text, std::size_t& at) {
  std::size_t n = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    if (n < SIZE_MAX / 100) n = n * 10 + static_cast<std::size_t>(text[at] - '0');
  }
  return n;
}

Conversion conversion_at(std::string_view format, std::size_t& at) {
  Conversion c;
  for (; at < format.size(); ++at) {
    if (format[at] == '-') {
      c.left = true;
    } else if (format[at] == '0') {
      c.zeros = true;
    } else if (format[at] == '+') {
      c.plus = true;
    } else {
      break;
    }
  }
  c.width = number_at(format, at);
  if (at < format.size() && format[at] == '.') {
    ++at;
    c.precision = static_cast<int>(std::min<std::size_t>(number_at(format, at), 100));
  }
  if (at >= format.size()) fail("incomplete format");
  c.type = format[at++];
  return c;
}

std::string formatted_number(const Conversion& c, const Value& v) {
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (!is_number(v))
    fail(std::string("format %") + c.type + " needs a number, not " + kind_name(v.kind()));
  char buffer[512];
  const bool real = c.type == 'f' || c.type == 'F';
  if (real) {
    std::snprintf(buffer, sizeof buffer, "%.*f", c.precision < 0 ? 6 : c.precision, to_real(v));
  } else if (v.is(Kind::real)) {
    if (c.type != 'd' && c.type != 'i' && c.type != 'u') fail("format %x needs an integer");
    if (std::fabs(v.as_real()) >= 9e18 || std::isnan(v.as_real()))
      fail("number does not fit 64 bits");
    std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(v.as_real()));
  } else if (c.type == 'x' || c.type == 'X') {
    const auto magnitude =
        static_cast<unsigned long long>(v.as_int() < 0 ? 0 - static_cast<std::uint64_t>(v.as_int())
                                                       : static_cast<std::uint64_t>(v.as_int()));
    std::snprintf(buffer, sizeof buffer, c.type == 'x' ? "%s%llx" : "%s%llX",
                  v.as_int() < 0 ? "-" : "", magnitude);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(v.as_int()));
  }
  std::string text = buffer;
  if (c.plus && text[0] != '-') text.insert(text.begin(), '+');
  if (c.zeros && !c.left && text.size() < c.width) {
    const std::size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
    text.insert(sign, std::string(c.width - text.size(), '0'));
  }
  return text;
}

}  // namespace

OriginText change_case(const OriginText& text, std::string_view how) {
  OriginText out;
  bool word = false;  // inside a word, for title
  bool first = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t cp = code_point_at(text.view(), at);
    Case to = Case::lower;
    if (how == "upper") {
      to = Case::upper;
    } else if (how == "title") {
      to = word ? Case::lower : Case::title;
      word = is_cased(cp);
    } else if (how == "title_words") {
      to = word ? Case::lower : Case::upper;
      word = !splits_words(cp);
    } else if (how == "capitalize") {
      to = first ? Case::title : Case::lower;
    }
    first = false;
    out.append_like(mapped(cp, to), text, at);
    at += code_point_bytes(text.view(), at);
  }
  return out;
}

bool is_lower(std::string_view text) {
  bool any = false;
  for (std::size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
    const std::uint32_t cp = code_point_at(text, at);
    if (!is_cased(cp)) continue;
    if (utf8proc_category(static_cast<utf8proc_int32_t>(cp)) != UTF8PROC_CATEGORY_LL) return false;
    any = true;
  }
  return any;
}

bool is_upper(std::string_view text) {
  bool any = false;
  for (std::size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
    const std::uint32_t cp = code_point_at(text, at);
    if (!is_cased(cp)) continue;
    if (utf8proc_category(static_cast<utf8proc_int32_t>(cp)) != UTF8PROC_CATEGORY_LU) return false;
    any = true;
  }
  return any;
}

OriginText replace_all(Heap& heap, const OriginText& text, const OriginText& from,
                       const OriginText& to, std::int64_t count) {
  OriginText out;
  heap.step(text.size() / 64);
  std::size_t kept = 0;
  std::size_t at = 0;
  for (; count != 0; --count) {
    if (from.empty()) {
      if (at > text.size()) break;
    } else {
      at = text.view().find(from.view(), at);
      if (at == std::string_view::npos) break;
    }
    out.append(text, kept, at);
    out.append(to);
    kept = at + from.size();
    // An empty needle matches before every character and at the end.
    at = from.empty() ? (at < text.size() ? at + code_point_bytes(text.view(), at) : at + 1) : kept;
    if (out.size() > heap.limits().max_string_bytes) heap.check_string(out.size());
  }
  out.append(text, kept, text.size());
  return out;
}

OriginText strip(const OriginText& text, const OriginText* chars, bool left, bool right) {
  const auto drop = [&](std::size_t at) {
    const std::uint32_t cp = code_point_at(text.view(), at);
    if (chars == nullptr) return is_space(cp);
    for (std::size_t k = 0; k < chars->size(); k += code_point_bytes(chars->view(), k)) {
      if (code_point_at(chars->view(), k) == cp) return true;
    }
    return false;
  };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end && drop(begin)) begin += code_point_bytes(text.view(), begin);
  while (right && end > begin) {
    std::size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(text.view()[at]) & 0xC0) == 0x80) --at;
    if (!drop(at)) break;
    end = at;
  }
  return text.slice(begin, end);
}

OriginText join(Heap& heap, const OriginText& separator, const std::vector<Value>& items,
                bool strings_only) {
  OriginText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    if (strings_only && !items[i].is(Kind::string)) {
      fail(std::string("join() needs strings, found ") + kind_name(items[i].kind()));
    }
    out.append(to_text(heap, items[i]));
    heap.step();
    if (out.size() > heap.limits().max_string_bytes) heap.check_string(out.size());
  }
  return out;
}

OriginText repeat(Heap& heap, const OriginText& text, std::int64_t count) {
  OriginText out;
  if (count <= 0 || text.empty()) return out;
  std::size_t total = 0;
  if (__builtin_mul_overflow(text.size(), static_cast<std::size_t>(count), &total))
    total = SIZE_MAX;
  heap.check_string(total);
  for (std::int64_t k = 0; k < count; ++k) out.append(text);
  return out;
}

OriginText format_percent(Heap& heap, const OriginText& format, const Value& args) {
  const bool several = args.is(Kind::tuple);
  std::size_t next = 0;
  const auto take = [&]() -> const Value& {
    const std::size_t i = next++;
    if (several ? i >= args.items().size() : i > 0) fail("not enough arguments for format string");
    return several ? args.items()[i] : args;
  };
  const std::string_view text = format.view();
  OriginText out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t percent = std::min(text.find('%', at), text.size());
    out.append(format, at, percent);
    at = percent + 1;
    if (percent == text.size()) break;
    if (at < text.size() && text[at] == '%') {
      out.append(format, at, at + 1);
      ++at;
      continue;
    }
    const Conversion c = conversion_at(text, at);
    OriginText piece;
    if (c.type == 's') {
      piece = to_text(heap, take());
      if (c.precision >= 0) {
        const auto offsets = code_point_offsets(piece.view());
        piece = piece.slice(
            0, offsets[std::min(offsets.size() - 1, static_cast<std::size_t>(c.precision))]);
      }
    } else if (std::string_view("diuxXfF").find(c.type) != std::string_view::npos) {
      piece = OriginText(formatted_number(c, take()), Origin::data);
    } else {
      fail(std::string("the format %") + c.type + " is not supported");
    }
    heap.check_string(std::max(c.width, out.size() + piece.size()));
    const std::size_t length = piece.length();
    const std::string pad(c.width > length ? c.width - length : 0, ' ');
    if (!c.left) out.append(pad, Origin::data);
    out.append(piece);
    if (c.left) out.append(pad, Origin::data);
  }
  // What can be subscripted counts as a mapping, whose entries need not be used.
  const bool mapping = args.is(Kind::dict) || args.is(Kind::list) || args.is(Kind::range) ||
                       args.is(Kind::undefined);
  const bool used = several ? next >= args.items().size() : next > 0 || mapping;
  if (!used) fail("not all arguments were used by the format string");
  return out;
}

}  // namespace cairn::text::jinja
