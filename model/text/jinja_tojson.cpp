// SPDX-License-Identifier: Apache-2.0
// json.dumps as chat templates get it: default separators, no HTML escapes, key order kept.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/text/jinja_ops.hpp"

namespace cairn::text::jinja {
namespace {

struct Format {
  bool ensure_ascii = false;
  bool indented = false;
  bool sort_keys = false;
  OriginText indent;
  OriginText item_separator;
  OriginText key_separator;
};

class Writer {
 public:
  Writer(Heap& heap, Format format) : heap_(heap), format_(std::move(format)) {}

  void value(const Value& v) {
    heap_.step();
    if (out.size() > heap_.limits().max_string_bytes) heap_.check_string(out.size());
    switch (v.kind()) {
      case Kind::string:
        append_json_string(out, v.text(), format_.ensure_ascii);
        break;
      case Kind::list:
      case Kind::tuple:
        list(v.items());
        break;
      case Kind::dict:
        dict(v.dict());
        break;
      default:
        plain(scalar(v));
    }
  }

  OriginText out;

 private:
  void plain(std::string_view text) { out.append(text, Origin::data); }

  static std::string scalar(const Value& v) {
    switch (v.kind()) {
      case Kind::none:
        return "null";
      case Kind::boolean:
        return v.as_bool() ? "true" : "false";
      case Kind::integer:
        return std::to_string(v.as_int());
      case Kind::big_integer:
        return v.text().bytes();
      case Kind::real:
        if (std::isnan(v.as_real())) return "NaN";
        if (std::isinf(v.as_real())) return v.as_real() < 0 ? "-Infinity" : "Infinity";
        return real_text(v.as_real());
      case Kind::undefined:
        fail_undefined(v);
      default:
        fail(std::string("a value of type ") + kind_name(v.kind()) + " has no JSON form");
    }
  }

  void new_line() {
    if (!format_.indented) return;
    plain("\n");
    for (int i = 0; i < level_; ++i) out.append(format_.indent);
  }

  void list(const std::vector<Value>& items) {
    plain("[");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(format_.item_separator);
      new_line();
      value(items[i]);
    }
    --level_;
    if (!items.empty()) new_line();
    plain("]");
  }

  void dict(const DictObject& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (format_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](auto* a, auto* b) { return less(heap_, a->first, b->first); });
    }
    plain("{");
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out.append(format_.item_separator);
      new_line();
      key(entries[i]->first);
      out.append(format_.key_separator);
      value(entries[i]->second);
    }
    --level_;
    if (!entries.empty()) new_line();
    plain("}");
  }

  void key(const Value& k) {
    if (k.is(Kind::string)) return append_json_string(out, k.text(), format_.ensure_ascii);
    if (k.is(Kind::tuple)) fail("a tuple cannot be a JSON key");
    plain("\"" + scalar(k) + "\"");
  }

  Heap& heap_;
  Format format_;
  int level_ = 0;
};

std::string unicode_escape(std::uint32_t cp) {
  char buffer[16];
  if (cp < 0x10000) {
    std::snprintf(buffer, sizeof buffer, "\\u%04x", cp);
  } else {
    std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                  0xDC00 + ((cp - 0x10000) & 0x3FF));
  }
  return buffer;
}

}  // namespace

void append_json_string(OriginText& out, const OriginText& text, bool ensure_ascii) {
  constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
  constexpr std::string_view kTo = "\"\\nrtfb";
  out.append("\"", Origin::data);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = code_point_bytes(text.view(), at);
    const std::uint32_t cp = code_point_at(text.view(), at);
    const bool plain = cp >= 0x20 && cp != '"' && cp != '\\' && (cp < 0x80 || !ensure_ascii);
    if (!plain) {
      out.append(text, kept, at);
      const std::size_t i = cp < 0x80 ? kFrom.find(static_cast<char>(cp)) : std::string_view::npos;
      out.append_like(i != std::string_view::npos ? std::string("\\") + kTo[i] : unicode_escape(cp),
                      text, at);
      kept = at + n;
    }
    at += n;
  }
  out.append(text, kept, text.size());
  out.append("\"", Origin::data);
}

Value to_json(Heap& heap, const Value& value, const Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Format format;
  format.ensure_ascii = bound.flag(0, false);
  format.sort_keys = bound.flag(3, false);
  const auto data = [](const char* text) { return OriginText(text, Origin::data); };
  if (bound.given(1) && !bound.at(1).is(Kind::none)) {
    format.indented = true;
    if (bound.at(1).is(Kind::string)) {
      format.indent = bound.text(1);
    } else {
      format.indent = repeat(heap, data(" "), bound.integer(1, 0));
    }
  }
  format.item_separator = data(format.indented ? "," : ", ");
  format.key_separator = data(": ");
  if (bound.given(2) && !bound.at(2).is(Kind::none)) {
    const std::vector<Value> pair = iterate(heap, bound.at(2));
    if (pair.size() != 2 || !pair[0].is(Kind::string) || !pair[1].is(Kind::string)) {
      fail("tojson: separators must be two strings");
    }
    format.item_separator = pair[0].text();
    format.key_separator = pair[1].text();
  }
  Writer writer(heap, std::move(format));
  writer.value(value);
  return heap.text(std::move(writer.out));
}

}  // namespace cairn::text::jinja
