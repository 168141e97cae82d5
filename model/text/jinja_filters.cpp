// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_filters.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace cairn::text::jinja {
namespace {

OriginText input_text(Interp& in, const Value& v) {
  if (!v.is(Kind::string)) in.heap().step();
  return in.text(v);
}

Value change(Interp& in, const Value& v, const Args& args, const char* name, const char* how) {
  const Bound bound(name, args, {});
  in.heap().step(v.text().size() / 64);
  return in.heap().text(change_case(input_text(in, v), how));
}

Value trim(Interp& in, const Value& v, const Args& args) {
  const Bound bound("trim", args, {"chars"});
  const bool given = bound.given(0) && !bound.at(0).is(Kind::none);
  return in.heap().text(strip(input_text(in, v), given ? &bound.text(0) : nullptr, true, true));
}

Value replace(Interp& in, const Value& v, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const std::int64_t count =
      bound.given(2) && !bound.at(2).is(Kind::none) ? bound.integer(2, -1) : -1;
  return in.heap().text(
      replace_all(in.heap(), input_text(in, v), in.text(bound.at(0)), in.text(bound.at(1)), count));
}

Value string(Interp& in, const Value& v, const Args& args) {
  const Bound bound("string", args, {});
  return v.is(Kind::string) ? v : in.heap().text(in.text(v));
}

Value escape(Interp& in, const Value& v, const Args& args) {
  const Bound bound("escape", args, {});
  const OriginText text = input_text(in, v);
  OriginText out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text.view()[at]) {
      case '&':
        out.append_like("&amp;", text, at);
        break;
      case '<':
        out.append_like("&lt;", text, at);
        break;
      case '>':
        out.append_like("&gt;", text, at);
        break;
      case '"':
        out.append_like("&#34;", text, at);
        break;
      case '\'':
        out.append_like("&#39;", text, at);
        break;
      default:
        out.append(text, at, at + 1);
    }
  }
  return in.heap().text(std::move(out));
}

Value indent(Interp& in, const Value& v, const Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (!v.is(Kind::string)) fail(std::string("indent needs a string, not ") + kind_name(v.kind()));
  OriginText by = OriginText(" ", Origin::data);
  if (bound.given(0) && bound.at(0).is(Kind::string)) {
    by = bound.text(0);
  } else {
    by = repeat(in.heap(), by, bound.integer(0, 4));
  }
  OriginText terminated = v.text();
  terminated.append("\n", Origin::data);
  const Value lines =
      call_method(in.heap(), in.heap().text(std::move(terminated)), "splitlines", {});
  OriginText out;
  bool first = true;
  for (const Value& line : lines.items()) {
    if (!first) out.append("\n", Origin::data);
    if (first ? bound.flag(1, false) : !line.text().empty() || bound.flag(2, false)) out.append(by);
    first = false;
    out.append(line.text());
    if (out.size() > in.heap().limits().max_string_bytes) in.heap().check_string(out.size());
  }
  return in.heap().text(std::move(out));
}

Value absolute(Interp&, const Value& v, const Args& args) {
  const Bound bound("abs", args, {});
  if (v.is(Kind::real)) return Value::real(std::fabs(v.as_real()));
  if (!is_integer(v)) return negate(v.is(Kind::undefined) ? v : Value::none());
  return v.as_int() < 0 ? negate(v) : Value::integer(v.as_int());
}

double round_to(double x, std::int64_t digits) {
  if (!std::isfinite(x) || digits > 300) return x;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(std::min<std::int64_t>(-digits, 400)));
    return std::isinf(unit) ? std::copysign(0.0, x) : std::nearbyint(x / unit) * unit;
  }
  char buffer[700];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), x);
  return std::strtod(buffer, nullptr);
}

Value round_filter(Interp&, const Value& v, const Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (v.is(Kind::big_integer)) fail("integers of more than 64 bits cannot be rounded");
  if (!is_number(v)) fail(std::string("round needs a number, not ") + kind_name(v.kind()));
  const std::int64_t digits = bound.integer(0, 0);
  const std::string_view method = bound.given(1) ? bound.text(1).view() : "common";
  if (method == "common") {
    if (!is_integer(v)) return Value::real(round_to(v.as_real(), digits));
    if (digits >= 0) return Value::integer(v.as_int());
    return Value::integer(static_cast<std::int64_t>(round_to(to_real(v), digits)));
  }
  if (method != "ceil" && method != "floor")
    fail("round: the method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = to_real(v) * unit;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

// A number as Python's int() and float() read it: blanks around, underscores between digits.
std::optional<std::string> numeral(const OriginText& text) {
  const OriginText stripped = strip(text, nullptr, true, true);
  std::string out;
  const std::string_view s = stripped.view();
  for (std::size_t i = 0; i < s.size(); ++i) {
    const auto digit = [&](std::size_t k) { return k < s.size() && s[k] >= '0' && s[k] <= '9'; };
    if (s[i] != '_') {
      out += s[i];
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return std::nullopt;
    }
  }
  if (!out.empty() && out[0] == '+' && out.size() > 1 && out[1] != '-') out.erase(0, 1);
  return out;
}

std::optional<double> parse_real(const OriginText& text) {
  const auto s = numeral(text);
  if (!s || s->empty()) return std::nullopt;
  std::string lower = *s;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool minus = lower[0] == '-';
  const std::string word = lower.substr(minus ? 1 : 0);
  if (word == "inf" || word == "infinity") return minus ? -INFINITY : INFINITY;
  if (word == "nan") return NAN;
  if (word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  double value = 0;
  const auto [end, ec] = std::from_chars(lower.data(), lower.data() + lower.size(), value);
  if (end != lower.data() + lower.size() || ec == std::errc::invalid_argument) return std::nullopt;
  if (ec == std::errc::result_out_of_range) return json::Value::number(lower).as_double();
  return value;
}

Value truncated(double d) {
  if (std::isinf(d)) fail("cannot convert float infinity to integer");
  if (std::fabs(d) >= 9.2e18) fail("number does not fit 64 bits");
  return Value::integer(static_cast<std::int64_t>(d));
}

Value to_int(Interp&, const Value& v, const Args& args) {
  const Bound bound("int", args, {"default", "base"});
  const Value otherwise = bound.given(0) ? bound.at(0) : Value::integer(0);
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (v.is(Kind::big_integer)) return v;
  if (is_integer(v)) return Value::integer(v.as_int());
  if (v.is(Kind::real)) return std::isnan(v.as_real()) ? otherwise : truncated(v.as_real());
  if (!v.is(Kind::string)) return otherwise;
  if (const auto s = numeral(v.text()); s && !s->empty()) {
    const std::int64_t base = bound.integer(1, 10);
    if (base < 2 || base > 36) fail("int: the base must lie between 2 and 36");
    std::string digits = *s;
    const std::size_t sign = digits[0] == '-' ? 1 : 0;
    const char prefix = digits.size() > sign + 2 && digits[sign] == '0' ? digits[sign + 1] : '\0';
    if ((base == 16 && (prefix == 'x' || prefix == 'X')) ||
        (base == 8 && (prefix == 'o' || prefix == 'O')) ||
        (base == 2 && (prefix == 'b' || prefix == 'B'))) {
      digits.erase(sign, 2);
    }
    std::int64_t value = 0;
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                           static_cast<int>(base));
    if (end == digits.data() + digits.size() && ec == std::errc{}) return Value::integer(value);
    if (end == digits.data() + digits.size() && ec == std::errc::result_out_of_range)
      fail("number does not fit 64 bits");
  }
  const auto real = parse_real(v.text());
  return real && !std::isnan(*real) ? truncated(*real) : otherwise;
}

Value to_float(Interp&, const Value& v, const Args& args) {
  const Bound bound("float", args, {"default"});
  const Value otherwise = bound.given(0) ? bound.at(0) : Value::real(0);
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (is_number(v)) return Value::real(to_real(v));
  if (v.is(Kind::big_integer))
    return Value::real(json::Value::number(v.text().bytes()).as_double());
  if (!v.is(Kind::string)) return otherwise;
  const auto real = parse_real(v.text());
  return real ? Value::real(*real) : otherwise;
}

Value otherwise(Interp&, const Value& v, const Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  const bool use = v.is(Kind::undefined) || (bound.flag(1, false) && !truth(v));
  if (!use) return v;
  return bound.given(0) ? bound.at(0) : literal({});
}

Value safe(Interp& in, const Value& v, const Args& args) { return string(in, v, args); }

Value attr(Interp& in, const Value& v, const Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  const std::string_view name = bound.text(0).view();
  if (v.is(Kind::dict) && !has_method(Kind::dict, name))
    return in.heap().undefined("no such attribute");
  return attribute(in.heap(), v, name);
}

Value format(Interp& in, const Value& v, const Args& args) {
  if (!args.named.empty()) fail("format with names is not supported");
  return in.heap().text(
      format_percent(in.heap(), input_text(in, v), in.heap().tuple(args.positional)));
}

Value center(Interp& in, const Value& v, const Args& args) {
  const Bound bound("center", args, {"width"});
  const Value width = bound.given(0) ? bound.at(0) : Value::integer(80);
  return call_method(in.heap(), string(in, v, {}), "center", {{width}, {}});
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"upper",
     [](Interp& in, const Value& v, const Args& a) { return change(in, v, a, "upper", "upper"); }},
    {"lower",
     [](Interp& in, const Value& v, const Args& a) { return change(in, v, a, "lower", "lower"); }},
    {"title", [](Interp& in, const Value& v,
                 const Args& a) { return change(in, v, a, "title", "title_words"); }},
    {"capitalize", [](Interp& in, const Value& v,
                      const Args& a) { return change(in, v, a, "capitalize", "capitalize"); }},
    {"trim", trim},
    {"replace", replace},
    {"string", string},
    {"e", escape},
    {"escape", escape},
    {"safe", safe},
    {"indent", indent},
    {"abs", absolute},
    {"round", round_filter},
    {"int", to_int},
    {"float", to_float},
    {"default", otherwise},
    {"d", otherwise},
    {"attr", attr},
    {"format", format},
    {"center", center},
    {"tojson", [](Interp& in, const Value& v, const Args& a) { return to_json(in.heap(), v, a); }},
};

}  // namespace

Filter find_value_filter(std::string_view name) {
  const auto at = std::find_if(std::begin(kFilters), std::end(kFilters),
                               [&](const auto& f) { return f.first == name; });
  return at == std::end(kFilters) ? nullptr : at->second;
}

bool filter_exists(std::string_view name) {
  return find_value_filter(name) != nullptr || find_sequence_filter(name) != nullptr;
}

Value Interp::filter(std::string_view name, const Value& input, const Args& args) {
  const Depth depth(*this);
  heap_.step();
  Filter filter = find_value_filter(name);
  if (filter == nullptr) filter = find_sequence_filter(name);
  if (filter == nullptr) fail("the filter '" + std::string(name) + "' is not supported");
  return filter(*this, input, args);
}

}  // namespace cairn::text::jinja
