// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_string_methods.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace cairn::text::jinja {
namespace {

using Method = Value (*)(Heap&, const OriginText&, const Args&);

Value strip_method(Heap& heap, const OriginText& self, const Args& args, const char* name,
                   bool left, bool right) {
  const Bound bound(name, args, {"chars"});
  const bool given = bound.given(0) && !bound.at(0).is(Kind::none);
  return heap.text(strip(self, given ? &bound.text(0) : nullptr, left, right));
}

std::int64_t split_limit(const Bound& bound) {
  const std::int64_t limit = bound.integer(1, -1);
  return limit < 0 ? INT64_MAX : limit;
}

std::size_t char_start(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(code_point_at(text, at))) at += code_point_bytes(text, at);
  return at;
}

Value split_words(Heap& heap, const OriginText& self, std::int64_t limit) {
  std::vector<Value> out;
  const std::string_view text = self.view();
  for (std::size_t at = skip_spaces(text, 0); at < text.size(); at = skip_spaces(text, at)) {
    std::size_t end = at;
    if (limit-- == 0) {
      out.push_back(heap.text(self.slice(at, text.size())));
      break;
    }
    while (end < text.size() && !is_space(code_point_at(text, end)))
      end += code_point_bytes(text, end);
    out.push_back(heap.text(self.slice(at, end)));
    at = end;
  }
  return heap.list(std::move(out));
}

Value rsplit_words(Heap& heap, const OriginText& self, std::int64_t limit) {
  std::vector<Value> out;
  const std::string_view text = self.view();
  std::size_t end = text.size();
  const auto trim = [&] {
    while (end > 0 && is_space(code_point_at(text, char_start(text, end))))
      end = char_start(text, end);
  };
  for (trim(); end > 0; trim()) {
    std::size_t at = end;
    if (limit-- == 0) {
      out.push_back(heap.text(self.slice(0, end)));
      break;
    }
    while (at > 0 && !is_space(code_point_at(text, char_start(text, at))))
      at = char_start(text, at);
    out.push_back(heap.text(self.slice(at, end)));
    end = at;
  }
  std::reverse(out.begin(), out.end());
  return heap.list(std::move(out));
}

const OriginText& separator_of(const Bound& bound) {
  const OriginText& separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  return separator;
}

Value split(Heap& heap, const OriginText& self, const Args& args) {
  const Bound bound("split", args, {"sep", "maxsplit"});
  std::int64_t limit = split_limit(bound);
  if (!bound.given(0) || bound.at(0).is(Kind::none)) return split_words(heap, self, limit);
  const OriginText& separator = separator_of(bound);
  std::vector<Value> out;
  std::size_t at = 0;
  for (; limit > 0; --limit) {
    const std::size_t end = self.view().find(separator.view(), at);
    if (end == std::string_view::npos) break;
    out.push_back(heap.text(self.slice(at, end)));
    at = end + separator.size();
  }
  out.push_back(heap.text(self.slice(at, self.size())));
  return heap.list(std::move(out));
}

Value rsplit(Heap& heap, const OriginText& self, const Args& args) {
  const Bound bound("rsplit", args, {"sep", "maxsplit"});
  std::int64_t limit = split_limit(bound);
  if (!bound.given(0) || bound.at(0).is(Kind::none)) return rsplit_words(heap, self, limit);
  const OriginText& separator = separator_of(bound);
  std::vector<Value> out;
  std::size_t end = self.size();
  for (; limit > 0 && end >= separator.size(); --limit) {
    const std::size_t at = self.view().rfind(separator.view(), end - separator.size());
    if (at == std::string_view::npos) break;
    out.push_back(heap.text(self.slice(at + separator.size(), end)));
    end = at;
  }
  out.push_back(heap.text(self.slice(0, end)));
  std::reverse(out.begin(), out.end());
  return heap.list(std::move(out));
}

bool is_line_break(std::uint32_t cp) {
  return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
         cp == 0x2029;
}

Value splitlines(Heap& heap, const OriginText& self, const Args& args) {
  const Bound bound("splitlines", args, {"keepends"});
  const bool keep = bound.flag(0, false);
  const std::string_view text = self.view();
  std::vector<Value> out;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const bool breaks = is_line_break(code_point_at(text, at));
    std::size_t next = at + code_point_bytes(text, at);
    if (breaks) {
      if (text[at] == '\r' && next < text.size() && text[next] == '\n') ++next;
      out.push_back(heap.text(self.slice(start, keep ? next : at)));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) out.push_back(heap.text(self.slice(start, text.size())));
  return heap.list(std::move(out));
}

// The bytes that `start` and `end` (arguments 1 and 2, in characters) select.
struct Window {
  std::size_t begin;
  std::size_t end;
  std::size_t first_char;
  bool valid;
};

Window window_of(Heap& heap, const OriginText& self, const Bound& bound) {
  if (!bound.given(1) && !bound.given(2)) return {0, self.size(), 0, true};
  heap.step(self.size() / 64);
  const auto offsets = code_point_offsets(self.view());
  const auto n = static_cast<std::int64_t>(offsets.size()) - 1;
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    if (!bound.given(i) || bound.at(i).is(Kind::none)) return otherwise;
    const std::int64_t at = bound.integer(i, otherwise);
    return at < 0 ? std::max<std::int64_t>(at < -n ? 0 : at + n, 0) : at;
  };
  const std::int64_t first = place(1, 0);
  const std::int64_t last = std::min(place(2, n), n);
  if (first > n || first > last) return {0, 0, 0, false};
  return {offsets[static_cast<std::size_t>(first)], offsets[static_cast<std::size_t>(last)],
          static_cast<std::size_t>(first), true};
}

std::int64_t find_from(Heap& heap, const OriginText& self, const Args& args, const char* name,
                       bool backwards) {
  const Bound bound(name, args, {"sub", "start", "end"}, 1);
  const std::string_view needle = bound.text(0).view();
  const Window w = window_of(heap, self, bound);
  if (!w.valid) return -1;
  heap.step(self.size() / 64);
  const std::string_view hay = self.view().substr(w.begin, w.end - w.begin);
  const std::size_t at = backwards ? hay.rfind(needle) : hay.find(needle);
  if (at == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(
      w.first_char + OriginText(std::string(hay.substr(0, at)), Origin::data).length());
}

Value count(Heap& heap, const OriginText& self, const Args& args) {
  const Bound bound("count", args, {"sub", "start", "end"}, 1);
  const OriginText& needle = bound.text(0);
  const Window w = window_of(heap, self, bound);
  if (!w.valid) return Value::integer(0);
  const OriginText hay = self.slice(w.begin, w.end);
  if (needle.empty()) return Value::integer(static_cast<std::int64_t>(hay.length()) + 1);
  std::int64_t n = 0;
  for (std::size_t at = 0; (at = hay.view().find(needle.view(), at)) != std::string_view::npos;
       at += needle.size())
    ++n;
  heap.step(self.size() / 64);
  return Value::integer(n);
}

Value has_affix(Heap& heap, const OriginText& self, const Args& args, const char* name,
                bool suffix) {
  const Bound bound(name, args, {"affix", "start", "end"}, 1);
  const Window w = window_of(heap, self, bound);
  const std::string_view text = self.view().substr(w.begin, w.end - w.begin);
  const auto matches = [&](const Value& v) {
    if (!v.is(Kind::string)) fail(std::string(name) + "() needs a string or a tuple of strings");
    const std::string_view affix = v.view();
    if (!w.valid || affix.size() > text.size()) return false;
    return text.substr(suffix ? text.size() - affix.size() : 0, affix.size()) == affix;
  };
  if (!bound.at(0).is(Kind::tuple)) return Value::boolean(matches(bound.at(0)));
  const auto& options = bound.at(0).items();
  return Value::boolean(std::any_of(options.begin(), options.end(), matches));
}

Value remove_affix(Heap& heap, const OriginText& self, const Args& args, const char* name,
                   bool suffix) {
  const Bound bound(name, args, {"affix"}, 1);
  const std::size_t n = bound.text(0).size();
  const bool has = truth(has_affix(heap, self, args, name, suffix));
  if (!has) return heap.text(self);
  return heap.text(suffix ? self.slice(0, self.size() - n) : self.slice(n, self.size()));
}

Value partition(Heap& heap, const OriginText& self, const Args& args, const char* name, bool last) {
  const Bound bound(name, args, {"sep"}, 1);
  const OriginText& separator = separator_of(bound);
  const std::size_t at =
      last ? self.view().rfind(separator.view()) : self.view().find(separator.view());
  if (at == std::string_view::npos) {
    const Value none = heap.text({});
    const Value all = heap.text(self);
    return last ? heap.tuple({none, none, all}) : heap.tuple({all, none, none});
  }
  const std::size_t behind = at + separator.size();
  return heap.tuple({heap.text(self.slice(0, at)), heap.text(self.slice(at, behind)),
                     heap.text(self.slice(behind, self.size()))});
}

Value replace(Heap& heap, const OriginText& self, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  return heap.text(replace_all(heap, self, bound.text(0), bound.text(1), bound.integer(2, -1)));
}

// `left` and `right`: which share of the padding goes where, out of 2.
Value pad(Heap& heap, const OriginText& self, const Args& args, const char* name, bool left,
          bool right) {
  const Bound bound(name, args, {"width", "fillchar"}, 1);
  const std::int64_t missing = bound.integer(0, 0) - static_cast<std::int64_t>(self.length());
  if (missing <= 0) return heap.text(self);
  const OriginText fill = bound.given(1) ? bound.text(1) : OriginText(" ", Origin::data);
  if (fill.length() != 1) fail("the fill character must be one character");
  std::int64_t before = left ? missing : 0;
  if (left && right) before = missing / 2 + (missing & bound.integer(0, 0) & 1);
  OriginText out = repeat(heap, fill, before);
  out.append(self);
  out.append(repeat(heap, fill, missing - before));
  return heap.text(std::move(out));
}

template <class Test>
Value all_characters(const OriginText& self, const Args& args, const char* name, Test test) {
  const Bound bound(name, args, {});
  const std::string_view text = self.view();
  for (std::size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
    if (!test(code_point_at(text, at))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

bool is_alpha(std::uint32_t cp) {
  const auto c = utf8proc_category(static_cast<utf8proc_int32_t>(cp));
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(std::uint32_t cp) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(cp)) == UTF8PROC_CATEGORY_ND ||
         cp == 0xB2 || cp == 0xB3 || cp == 0xB9 ||
         (cp >= 0x2070 && cp <= 0x2079 && cp != 0x2071 && cp != 0x2072 && cp != 0x2073) ||
         (cp >= 0x2080 && cp <= 0x2089);
}

Value plain_case(Heap& heap, const OriginText& self, const Args& args, const char* name) {
  const Bound bound(name, args, {});
  return heap.text(change_case(self, name));
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"upper", [](Heap& h, const OriginText& s, const Args& a) { return plain_case(h, s, a, "upper"); }},
    {"lower", [](Heap& h, const OriginText& s, const Args& a) { return plain_case(h, s, a, "lower"); }},
    {"title", [](Heap& h, const OriginText& s, const Args& a) { return plain_case(h, s, a, "title"); }},
    {"capitalize", [](Heap& h, const OriginText& s, const Args& a) { return plain_case(h, s, a, "capitalize"); }},
    {"strip", [](Heap& h, const OriginText& s, const Args& a) { return strip_method(h, s, a, "strip", true, true); }},
    {"lstrip", [](Heap& h, const OriginText& s, const Args& a) { return strip_method(h, s, a, "lstrip", true, false); }},
    {"rstrip", [](Heap& h, const OriginText& s, const Args& a) { return strip_method(h, s, a, "rstrip", false, true); }},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"startswith", [](Heap& h, const OriginText& s, const Args& a) { return has_affix(h, s, a, "startswith", false); }},
    {"endswith", [](Heap& h, const OriginText& s, const Args& a) { return has_affix(h, s, a, "endswith", true); }},
    {"removeprefix", [](Heap& h, const OriginText& s, const Args& a) { return remove_affix(h, s, a, "removeprefix", false); }},
    {"removesuffix", [](Heap& h, const OriginText& s, const Args& a) { return remove_affix(h, s, a, "removesuffix", true); }},
    {"partition", [](Heap& h, const OriginText& s, const Args& a) { return partition(h, s, a, "partition", false); }},
    {"rpartition", [](Heap& h, const OriginText& s, const Args& a) { return partition(h, s, a, "rpartition", true); }},
    {"replace", replace},
    {"count", count},
    {"join",
     [](Heap& h, const OriginText& s, const Args& a) {
       const Bound bound("join", a, {"iterable"}, 1);
       return h.text(join(h, s, iterate(h, bound.at(0)), true));
     }},
    {"find", [](Heap& h, const OriginText& s, const Args& a) { return Value::integer(find_from(h, s, a, "find", false)); }},
    {"rfind", [](Heap& h, const OriginText& s, const Args& a) { return Value::integer(find_from(h, s, a, "rfind", true)); }},
    {"index",
     [](Heap& h, const OriginText& s, const Args& a) {
       const std::int64_t at = find_from(h, s, a, "index", false);
       if (at < 0) fail("substring not found");
       return Value::integer(at);
     }},
    {"ljust", [](Heap& h, const OriginText& s, const Args& a) { return pad(h, s, a, "ljust", false, true); }},
    {"rjust", [](Heap& h, const OriginText& s, const Args& a) { return pad(h, s, a, "rjust", true, false); }},
    {"center", [](Heap& h, const OriginText& s, const Args& a) { return pad(h, s, a, "center", true, true); }},
    {"isalpha", [](Heap&, const OriginText& s, const Args& a) { return all_characters(s, a, "isalpha", is_alpha); }},
    {"isdigit", [](Heap&, const OriginText& s, const Args& a) { return all_characters(s, a, "isdigit", is_digit); }},
    {"isalnum",
     [](Heap&, const OriginText& s, const Args& a) {
       return all_characters(s, a, "isalnum", [](std::uint32_t cp) { return is_alpha(cp) || is_digit(cp); });
     }},
    {"isspace", [](Heap&, const OriginText& s, const Args& a) { return all_characters(s, a, "isspace", is_space); }},
    {"islower",
     [](Heap&, const OriginText& s, const Args& a) {
       const Bound bound("islower", a, {});
       return Value::boolean(is_lower(s.view()));
     }},
    {"isupper",
     [](Heap&, const OriginText& s, const Args& a) {
       const Bound bound("isupper", a, {});
       return Value::boolean(is_upper(s.view()));
     }},
};

constexpr std::string_view kNotOffered[] = {
    "casefold",  "encode",       "expandtabs", "format",      "format_map", "isascii",
    "isdecimal", "isidentifier", "isnumeric",  "isprintable", "istitle",    "maketrans",
    "rindex",    "swapcase",     "translate",  "zfill"};

}  // namespace

bool is_string_method(std::string_view name) {
  return std::any_of(std::begin(kMethods), std::end(kMethods),
                     [&](const auto& m) { return m.first == name; }) ||
         std::find(std::begin(kNotOffered), std::end(kNotOffered), name) != std::end(kNotOffered);
}

Value call_string_method(Heap& heap, const OriginText& self, std::string_view name,
                         const Args& args) {
  heap.step(self.size() / 64);
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method(heap, self, args);
  }
  fail("the method '" + std::string(name) + "' of str is not supported");
}

}  // namespace cairn::text::jinja
