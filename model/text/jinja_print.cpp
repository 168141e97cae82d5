// SPDX-License-Identifier: Apache-2.0
#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "model/text/jinja_callable.hpp"
#include "model/text/jinja_ops.hpp"

namespace cairn::text::jinja {
namespace {

std::string hex_escape(std::uint32_t cp) {
  char buffer[16];
  const char* format = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer, sizeof buffer, format, cp);
  return buffer;
}

bool printable(std::uint32_t cp) {
  if (cp < 0x7F) return cp >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(cp))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

// Python's repr() of nested values; the origin of characters is kept, quotes and brackets count as
// data.
class Repr {
 public:
  explicit Repr(Heap& heap) : heap_(heap) {}

  void value(const Value& v) {
    heap_.step();
    if (++depth_ > 200) fail("a value is nested too deeply to print");
    switch (v.kind()) {
      case Kind::string:
        string(v.text());
        break;
      case Kind::undefined:
        plain("Undefined");
        break;
      case Kind::list:
        sequence("[", v.items(), "]");
        break;
      case Kind::tuple:
        sequence("(", v.items(), v.items().size() == 1 ? ",)" : ")");
        break;
      case Kind::dict:
        dict(v.dict());
        break;
      case Kind::view: {
        const auto kind = v.as<ViewObject>().view;
        plain(kind == ViewKind::keys     ? "dict_keys("
              : kind == ViewKind::values ? "dict_values("
                                         : "dict_items(");
        sequence("[", iterate(heap_, v), "])");
        break;
      }
      case Kind::name_space: {
        plain("<Namespace {");
        bool first = true;
        for (const auto& [name, attribute] : v.as<NamespaceObject>().attributes) {
          plain(first ? "" : ", ");
          first = false;
          string(OriginText(name, Origin::data));
          plain(": ");
          value(attribute);
        }
        plain("}>");
        break;
      }
      default:
        out.append(to_text(heap_, v));
    }
    --depth_;
    if (out.size() > heap_.limits().max_string_bytes) heap_.check_string(out.size());
  }

  OriginText out;

 private:
  void plain(std::string_view text) { out.append(text, Origin::data); }

  void sequence(const char* open, const std::vector<Value>& items, const char* close) {
    plain(open);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) plain(", ");
      value(items[i]);
    }
    plain(close);
  }

  void dict(const DictObject& dict) {
    plain("{");
    bool first = true;
    for (const auto& [key, item] : dict.entries) {
      if (!first) plain(", ");
      first = false;
      value(key);
      plain(": ");
      value(item);
    }
    plain("}");
  }

  void string(const OriginText& text) {
    const bool single = text.view().find('\'') != std::string_view::npos;
    const char quote = single && text.view().find('"') == std::string_view::npos ? '"' : '\'';
    plain(std::string(1, quote));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = code_point_bytes(text.view(), at);
      const std::uint32_t cp = code_point_at(text.view(), at);
      if (cp == '\\' || cp == static_cast<unsigned char>(quote)) {
        out.append_like("\\", text, at);
        out.append(text, at, at + n);
      } else if (cp == '\n' || cp == '\r' || cp == '\t') {
        out.append_like(cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t", text, at);
      } else if (!printable(cp)) {
        out.append_like(hex_escape(cp), text, at);
      } else {
        out.append(text, at, at + n);
      }
      at += n;
    }
    plain(std::string(1, quote));
  }

  Heap& heap_;
  int depth_ = 0;
};

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = shortest.find('e');
  std::string digits(shortest.substr(0, 1));
  if (e > 2) digits += shortest.substr(2, e - 2);
  int exponent = 0;
  const bool minus = shortest[e + 1] == '-';
  std::from_chars(shortest.data() + e + 2, shortest.data() + shortest.size(), exponent);
  if (minus) exponent = -exponent;
  std::string out = std::signbit(value) ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    std::snprintf(buffer, sizeof buffer, "e%c%02d", minus ? '-' : '+', std::abs(exponent));
    return out + buffer;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto point = static_cast<std::size_t>(exponent + 1);
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

OriginText to_text(Heap& heap, const Value& v) {
  const auto data = [](std::string text) { return OriginText(std::move(text), Origin::data); };
  switch (v.kind()) {
    case Kind::undefined:
      return {};
    case Kind::none:
      return data("None");
    case Kind::boolean:
      return data(v.as_bool() ? "True" : "False");
    case Kind::integer:
      return data(std::to_string(v.as_int()));
    case Kind::real:
      return data(real_text(v.as_real()));
    case Kind::string:
    case Kind::big_integer:
      return v.text();
    case Kind::range: {
      const auto& range = v.as<RangeObject>();
      std::string text = "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
      if (range.step != 1) text += ", " + std::to_string(range.step);
      return data(text + ")");
    }
    case Kind::iterator:
    case Kind::callable:
    case Kind::loop:
      fail(std::string("a ") + kind_name(v.kind()) +
           " has no useful text; did you mean to call or list it?");
    default: {
      Repr repr(heap);
      repr.value(v);
      heap.step(repr.out.size() / 64);
      return std::move(repr.out);
    }
  }
}

}  // namespace cairn::text::jinja
