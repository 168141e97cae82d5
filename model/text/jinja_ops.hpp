// SPDX-License-Identifier: Apache-2.0
// What Python's operators and conversions do to values. Everything fails with TemplateError.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja_value.hpp"

namespace cairn::text::jinja {

// Numbers and operators (jinja_ops.cpp).
Value binary(Heap& heap, std::string_view op, const Value& left, const Value& right);
Value negate(const Value& value);
bool is_number(const Value& value);   // bool counts, as in Python
bool is_integer(const Value& value);  // bool or int of 64 bits
double to_real(const Value& value);

// Comparison (jinja_compare.cpp).
bool truth(const Value& value);
bool equal(Heap& heap, const Value& left, const Value& right);
bool less(Heap& heap, const Value& left, const Value& right);
bool compare(Heap& heap, std::string_view op, const Value& left, const Value& right);
bool contains(Heap& heap, const Value& container, const Value& item);

// Walking and access (jinja_access.cpp).
bool is_iterable(const Value& value);
/// All items; uses an iterator up.
std::vector<Value> iterate(Heap& heap, const Value& value);
std::optional<std::size_t> length_of(const Value& value);
Value attribute(Heap& heap, const Value& base, std::string_view name);
Value item(Heap& heap, const Value& base, const Value& key);
/// Bounds are none where not given.
Value slice(Heap& heap, const Value& base, const Value& start, const Value& stop,
            const Value& step);
[[noreturn]] void fail_undefined(const Value& value);

// Text (jinja_print.cpp).
OriginText to_text(Heap& heap, const Value& value);
std::string real_text(double value);
void append_json_string(OriginText& out, const OriginText& text, bool ensure_ascii);

/// Arguments of a call, a filter or a test.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments matched with a builtin's parameters. Fails on unknown, repeated or missing ones.
class Bound {
 public:
  Bound(std::string_view what, const Args& args, std::initializer_list<std::string_view> names,
        std::size_t required = 0);
  const Value* get(std::size_t i) const { return given_[i]; }
  const Value& at(std::size_t i) const { return *given_[i]; }
  bool given(std::size_t i) const { return given_[i] != nullptr; }
  bool flag(std::size_t i, bool otherwise) const {
    return given_[i] ? truth(*given_[i]) : otherwise;
  }
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  /// The text of a string argument.
  const OriginText& text(std::size_t i) const;

 private:
  std::string what_;
  std::vector<const Value*> given_;
};

/// A bound method of a string, dict or list; fails when there is no such method.
Value call_method(Heap& heap, const Value& self, std::string_view name, const Args& args);
bool has_method(Kind kind, std::string_view name);

/// Python's json.dumps, with the keyword arguments chat templates pass.
Value to_json(Heap& heap, const Value& value, const Args& args);

// Strings (jinja_strings.cpp).
OriginText change_case(const OriginText& text,
                       std::string_view how);  // upper, lower, title, capitalize
OriginText replace_all(Heap& heap, const OriginText& text, const OriginText& from,
                       const OriginText& to, std::int64_t count);
OriginText strip(const OriginText& text, const OriginText* chars, bool left, bool right);
OriginText join(Heap& heap, const OriginText& separator, const std::vector<Value>& items,
                bool strings_only);
OriginText repeat(Heap& heap, const OriginText& text, std::int64_t count);
/// printf-style formatting, for `%` and the format filter.
OriginText format_percent(Heap& heap, const OriginText& format, const Value& args);
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);

}  // namespace cairn::text::jinja
